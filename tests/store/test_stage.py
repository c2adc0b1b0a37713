"""Stages run once for the same settings and inputs, and leave records that make them skipped."""

from dataclasses import replace

import pytest

from xmcspark.config.configuration import load
from xmcspark.errors import InputError, StoreError
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.published import Published, publish
from xmcspark.store.runner import run_stage, run_stages, stale_stages
from xmcspark.store.runs import Run, StageRecord
from xmcspark.store.stage import Context, EarlyCheck, Stage, read_table


def _write_labels(context: Context) -> None:
    rows = context.spark.createDataFrame(
        [(0, "a", "A", True, 3, None, None), (1, "b", None, True, 2, None, None)],
        "id int, key string, text string, active boolean, positives bigint, first_seen date, last_seen date",
    )
    context.write("labels", rows)
    context.note(seen=2)


LABELS = Stage("corpus", 1, ("corpus",), (), ("labels",), _write_labels)


@pytest.fixture
def place(spark, tmp_path):
    return spark, load(None, []), Run(Filesystem(spark), str(tmp_path), "r")


def _stage(**changes):
    return replace(LABELS, **{"config_keys": ("seed",), **changes})


def test_a_finished_stage_is_skipped_and_its_notes_are_kept(place):
    spark, config, run = place
    first = run_stage(spark, config, run, None, _stage())
    again = run_stage(spark, config, run, None, _stage())
    assert (first.skipped, again.skipped) == (False, True)
    assert again.record.notes == {"seen": 2}
    assert again.record.rows == {"labels": 2}


@pytest.mark.parametrize("change", [{"version": 2}, {"config_keys": ("seed", "train")}])
def test_a_stage_runs_again_when_what_decides_its_output_changes(place, change):
    spark, config, run = place
    run_stage(spark, config, run, None, _stage())
    assert not run_stage(spark, config, run, None, _stage(**change)).skipped


def test_a_setting_that_a_stage_does_not_declare_does_not_make_it_run_again(place):
    spark, config, run = place
    run_stage(spark, config, run, None, _stage())
    assert run_stage(spark, load(None, ["train.threshold=0.2"]), run, None, _stage()).skipped
    assert not run_stage(spark, load(None, ["seed=7"]), run, None, _stage()).skipped


def test_a_stage_that_fails_leaves_no_record(place):
    spark, config, run = place

    def fails(context: Context) -> None:
        _write_labels(context)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        run_stage(spark, config, run, None, _stage(run=fails))
    assert run.find_record("corpus") is None


def test_a_record_cut_off_by_a_kill_counts_as_not_there(place):
    spark, config, run = place
    run_stage(spark, config, run, None, _stage())
    uri = run.uri + "/stages/corpus.json"
    run.fs.write_text(uri, run.fs.read_text(uri)[:-20])
    assert not run_stage(spark, config, run, None, _stage()).skipped


def test_tables_come_back_with_their_declared_columns(place):
    spark, config, run = place
    run_stage(spark, config, run, None, _stage())
    table = read_table(spark, run, "labels")
    assert table.columns[:3] == ["id", "key", "text"]
    assert sorted(row.key for row in table.collect()) == ["a", "b"]


def test_a_stage_may_only_touch_what_it_declares(place):
    spark, config, run = place

    def reads(context: Context) -> None:
        context.read("features")  # which is not among its `reads`

    with pytest.raises(StoreError, match="does not declare that it reads features"):
        run_stage(spark, config, run, None, _stage(run=reads))


def test_a_missing_table_names_the_remedy(place):
    spark, _, run = place
    with pytest.raises(StoreError, match="no table matchers: run the stage that writes it"):
        read_table(spark, run, "matchers")


def test_a_published_run_is_never_written_over(place):
    spark, config, run = place
    run_stage(spark, config, run, None, _stage())
    publish(run.fs, run.root, Published(run.id, "2026-01-01T00:00:00+00:00", "refresh"), after=0)
    assert run_stage(spark, config, run, None, _stage()).skipped
    with pytest.raises(StoreError, match="was published, and its settings, its inputs or the release"):
        run_stage(spark, config, run, None, _stage(version=2))
    assert run.find_record("corpus") is not None


def test_a_stage_does_not_run_on_what_no_finished_stage_wrote(place):
    spark, config, run = place
    with pytest.raises(StoreError, match="labels is not there or not finished, and vectorize needs it"):
        run_stage(spark, config, run, None, _stage(name="vectorize", reads=("labels",), writes=()))


def _chain(version=1):
    """corpus -> vectorize -> train, as far as their records go: each writes what the next one reads."""
    corpus = _stage(version=version)
    vectorize = _stage(
        name="vectorize", reads=("labels",), writes=("bundle/tfidf/",), run=lambda context: None
    )
    train = _stage(
        name="train", reads=("bundle/tfidf/",), writes=("bundle/model/",), run=lambda context: None
    )
    return corpus, vectorize, train


def test_a_stage_refuses_what_was_made_from_tables_that_changed_since(place):
    spark, config, run = place
    for stage in _chain():
        run_stage(spark, config, run, None, stage)
    corpus, vectorize, train = _chain(version=2)
    assert not run_stage(spark, config, run, None, corpus).skipped
    with pytest.raises(
        StoreError, match=r"labels changed since vectorize read it\. Run vectorize, then train"
    ):
        run_stage(spark, config, run, None, train)
    assert run.find_record("train") is not None, "nothing was touched"
    assert not run_stage(spark, config, run, None, vectorize).skipped
    assert not run_stage(spark, config, run, None, train).skipped


def test_what_a_later_stage_refuses_is_known_as_soon_as_its_tables_are_there(place):
    spark, config, run = place
    corpus, vectorize, train = _chain()

    def refused(context):
        assert context.stage.name == "train"
        raise InputError("labels will not do")

    checked = replace(train, early_check=EarlyCheck("corpus", refused))
    for _ in range(2):  # the second time corpus is finished already
        with pytest.raises(InputError, match="will not do"):
            run_stages(spark, config, run, None, [corpus, vectorize, checked])
        assert [record.stage for record in run.records()] == ["corpus"]
    run_stages(spark, config, run, None, [corpus, vectorize, train])
    outcomes = run_stages(spark, config, run, None, [corpus, vectorize, checked])
    assert all(outcome.skipped for outcome in outcomes), "a finished stage was not checked again"
    other = replace(checked, config_keys=("seed", "train"))
    with pytest.raises(InputError, match="will not do"):  # what is finished is of other settings
        run_stages(spark, config, run, None, [corpus, vectorize, other])
    assert run.find_record("train") == outcomes[2].record, "what was made is kept"
    with pytest.raises(InputError, match="will not do"):  # or of other tables
        run_stages(spark, config, run, None, [replace(corpus, version=2), vectorize, checked])
    assert run.find_record("vectorize") == outcomes[1].record, "it did not run again"


def _record(stage, key, writes, **inputs):
    return StageRecord(stage, key, 0.0, writes=[writes], inputs=inputs)


def test_stale_stages_are_named_in_the_order_they_must_run():
    records = [
        _record("train", "t", "model", tree="i", features="v"),
        _record("index", "i", "tree", features="v"),
        _record("vectorize", "v", "features", instances="c1"),
        _record("corpus", "c2", "instances"),
    ]
    assert stale_stages(records, ["model"]) == {
        "vectorize": ["instances"],
        "index": ["features"],
        "train": ["tree", "features"],
    }
    assert list(stale_stages(records, ["tree"])) == ["vectorize", "index"]
    assert stale_stages(records[:3], ["features"]) == {"vectorize": ["instances"]}, "corpus did not finish"
    assert (
        stale_stages(
            [*records[:2], _record("vectorize", "v", "features", instances="c2"), records[3]], ["model"]
        )
        == {}
    )
    assert stale_stages([_record("train", "t", "model")], ["model", "labels"]) == {}, (
        "records of an early release"
    )
