"""Publishing: the highest number is served, one of two publishers wins, gates refuse, rollback is one more number,
pruning keeps what is served."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from xmcspark.config.configuration import load
from xmcspark.errors import ConflictError, StoreError
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.gates import gate_problems
from xmcspark.store.pruning import prune
from xmcspark.store.publish import roll_back
from xmcspark.store.publish_settings import RequireSettings
from xmcspark.store.published import Published, history, last_number, publish, published
from xmcspark.store.runs import Run


@pytest.fixture
def store(spark, tmp_path):
    fs = Filesystem(spark)
    return fs, fs.qualified(str(tmp_path))


def _publication(run, **facts):
    return Published(run, "2026-01-01T00:00:00+00:00", "refresh", facts)


def test_nothing_is_served_before_the_first_publication(store):
    assert published(*store) is None
    assert last_number(*store) == 0


def test_the_highest_number_is_served(store):
    for after, run in ((0, "a"), (1, "b"), (9, "c")):
        publish(*store, _publication(run), after)
    assert published(*store).run == "c"
    assert [publication.run for publication in history(*store)] == ["a", "b", "c"]


def test_of_two_publishers_one_wins_and_the_other_learns_who(store):
    last = last_number(*store)
    publish(*store, _publication("fast"), last)
    with pytest.raises(ConflictError, match="run fast was published while slow"):
        publish(*store, _publication("slow"), last)
    assert published(*store).run == "fast"


def test_a_pointer_whose_writer_died_does_not_count_and_its_number_is_not_reused(store, caplog):
    fs, root = store
    publish(fs, root, _publication("good"), 0)
    fs.write_text(f"{root}/published/2.json", '{"number": 2, "ru')
    assert published(fs, root).run == "good"
    assert "does not count" in caplog.text
    assert last_number(fs, root) == 2


@pytest.mark.parametrize(
    ("new", "old", "says"),
    [
        (
            {"precision": 0.50, "labels": 100},
            {"precision": 0.53, "labels": 100},
            "P@1 fell from 0.5300 to 0.5000",
        ),
        ({"precision": 0.6, "labels": 80}, {"precision": 0.5, "labels": 100}, "labels fell from 100 to 80"),
        ({"labels": 9, "date": "2026-01-01"}, {"labels": 9, "date": "2026-01-02"}, "is of 2026-01-01"),
    ],
)
def test_gates_say_what_fell(new, old, says):
    assert says in gate_problems(RequireSettings(), new, old)[0]


def test_gates_let_through_what_is_as_good(store):
    facts = {"precision": 0.50, "labels": 95}
    assert gate_problems(RequireSettings(), facts, {"precision": 0.51, "labels": 100}) == []
    assert gate_problems(RequireSettings(), facts, None) == []
    assert gate_problems(RequireSettings(), {"precision": None, "labels": 9}, None) == []


def test_a_gate_that_cannot_be_judged_refuses():
    problems = gate_problems(
        RequireSettings(), {"precision": None, "labels": 9}, {"precision": 0.5, "labels": 9}
    )
    assert "P@1 was not measured" in problems[0]


def test_a_least_precision_needs_a_test_split():
    require = RequireSettings(min_precision=0.4)
    assert "no test split" in gate_problems(require, {"precision": None, "labels": 9}, None)[0]
    assert (
        "below publish.require.min_precision"
        in gate_problems(require, {"precision": 0.3, "labels": 9}, None)[0]
    )


def test_gates_can_be_switched_off_in_a_configuration():
    config = load(None, ["publish.require.max_precision_drop=null", "publish.require.max_label_drop=null"])
    assert (
        gate_problems(
            config.publish.require, {"precision": 0.1, "labels": 1}, {"precision": 0.9, "labels": 9}
        )
        == []
    )


def test_only_what_was_published_can_be_rolled_back_to(store):
    fs, root = store
    with pytest.raises(StoreError, match="never published"):
        roll_back(fs, Run(fs, root, "x"))


def _make_run(fs, root, name, age_days, base=None):
    run = Run(fs, root, name)
    for file, text in (
        ("run.json", json.dumps({"base": base})),
        ("tables/t/part", "x"),
        ("stages/corpus.json", "{}"),
    ):
        fs.write_text(f"{run.uri}/{file}", text)
    folder = fs.local_path(run.uri)
    for path, _, files in os.walk(folder):
        for item in [path, *(os.path.join(path, f) for f in files)]:
            then = os.stat(item).st_mtime - age_days * 86400
            os.utime(item, (then, then))


def test_pruning_keeps_the_served_the_kept_and_the_young(store):
    fs, root = store
    for name, age in (("old1", 30), ("old2", 30), ("old3", 30), ("failed", 30), ("young", 0), ("base", 30)):
        _make_run(fs, root, name, age, base="base" if name == "young" else None)
    for after, run in enumerate(("base", "old1", "old2", "old3")):
        publish(fs, root, _publication(run), after)
    assert prune(fs, root, keep=2, days=7) == ["failed", "old1"]
    left = {entry.name for entry in fs.list(root)}
    assert left == {"base", "old2", "old3", "young", "published"}
    assert prune(fs, root, keep=2, days=7) == []


@pytest.mark.parametrize(
    ("file", "key"),
    [("run.json", "opened_at"), ("stages/train.json", "finished_at")],
    ids=["opened", "stage"],
)
def test_the_age_of_a_run_is_what_its_records_say(store, file, key):
    """Not when its files were written: folders of object stores have no time, and copied files a new one."""
    fs, root = store
    now = datetime.now(UTC)
    for name, touched_days_ago, ago in (("recent", 30, timedelta(days=1)), ("old", 0, timedelta(days=30))):
        _make_run(fs, root, name, touched_days_ago)
        fs.write_text(f"{root}/{name}/{file}", json.dumps({key: (now - ago).isoformat()}))
        os.utime(fs.local_path(f"{root}/{name}/{file}"), (0, 0))
    assert prune(fs, root, keep=1, days=7) == ["old"]


def test_a_run_that_was_published_again_is_young(store):
    fs, root = store
    for after, (name, day) in enumerate((("a", "2026-01-01"), ("b", "2026-01-01"), ("c", "2026-01-01"))):
        _make_run(fs, root, name, 30)
        publish(fs, root, Published(name, f"{day}T00:00:00+00:00", "refresh"), after)
    publish(fs, root, Published("a", datetime.now(UTC).isoformat(), "rollback"), 3)
    publish(fs, root, Published("b", "2026-01-02T00:00:00+00:00", "rollback"), 4)
    assert prune(fs, root, keep=1, days=7) == ["c"]


def test_pruning_leaves_folders_that_are_no_runs(store):
    fs, root = store
    fs.write_text(f"{root}/interactions/data/x", "1")
    assert prune(fs, root, keep=1, days=0) == []
    assert fs.exists(f"{root}/interactions/data/x")
