"""What a report gathers from the tables of a run, and from the run published before it."""

import json
from math import isnan, nan
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from page_outline import Outline
from pyarrow import parquet

from xmcspark.errors import RefusedError
from xmcspark.report.distribution import Distribution
from xmcspark.report.page import report_page

NAMES = ["zero", "one", "two", None, "four"]
TEXTS = {"a": "red shoes", "b": "blue", "c": "", "d": "red socks of wool"}


def write_table(context, table, rows):
    """Without a job: there are many of them here."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from xmcspark.store.tables import TABLES

    schema, place = (
        to_arrow_schema(TABLES[table].schema),
        Path(context.fs.local_path(context.run.table(table))),
    )
    columns = zip(*rows, strict=True)
    made = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    parts = TABLES[table].partitioned_by
    parquet.write_to_dataset(made, place, partition_cols=list(parts) or None)


def write_run(context, precision=0.5):
    """A run of five labels, one of them not trained, three training instances and one to test on."""
    labels = [[0, 1], [0], [0, 2, 3], [1]]
    rows = [
        (name, "test" if name == "d" else "train", "corpus", text, own, [1.0] * len(own), 1)
        for (name, text), own in zip(TEXTS.items(), labels, strict=True)
    ]
    write_table(context, "instances", rows)
    positives = [12, 1, 1, 1, 0]
    write_table(
        context,
        "labels",
        [(i, f"key{i}", NAMES[i], i != 4, positives[i], None, None) for i in range(5)],
    )
    nodes = [
        (0, 0, -1, 0, "", 0, 2, 4, 3, 9),
        (0, 1, 0, 1, "0", 1, 1, 1, 3, 9),
        (0, 2, 0, 1, "1", 2, 3, 3, 2, 6),
    ]
    write_table(context, "tree_nodes", [(*node, [0], [1.0], 1) for node in nodes])
    write_table(
        context,
        "sub_tree_load",
        [(0, i, i, 1, 3, 0, i, 3, 9, 1_000, 2_000, 1e9 * (i + 1), 0.5) for i in range(3)],
    )
    write_table(context, "predictions", [("d", [1, 3], [0.75, 0.5], "test", "xr-linear")])
    write_table(
        context,
        "metrics",
        [
            ("xr-linear", "test", "P", 1, "all", precision, 0.4, 0.6, 1),
            ("xr-linear", "test", "P", 1, "q1", None, nan, None, 0),
            ("xr-linear", "train", "P", 1, "all", 0.99, None, None, 3),
        ],
    )


def finished(context, **notes):
    """Outcomes of the stages, which are recorded as well."""
    from xmcspark.store.runner import Outcome
    from xmcspark.store.runs import StageRecord

    noted = {"corpus": {"train_instances": 3, "labels_active": 4}, "train": {"weights": 40}} | notes
    records = [
        StageRecord(stage, "k", 1.5, {"rows": 3}, of_stage, measured={"slots": 2, "shuffle_bytes": 10})
        for stage, of_stage in noted.items()
    ]
    for record in records:
        context.run.finish(record)
    return [Outcome(record, skipped=False) for record in records]


def publish(context, number, run):
    payload = {"run": run, "published_at": "2026-03-01T04:00:00+00:00", "reason": "refresh", "facts": {}}
    context.fs.write_text(f"{context.run.root}/published/{number}.json", json.dumps(payload))


def gather(context, outcomes, base=None):
    from xmcspark.report.report_spark import gathered

    return gathered(context.spark, context.config, context.run, base, outcomes)


def test_the_tables_of_a_run_come_back_as_a_few_numbers(make_context):
    context = make_context(None, "refresh.examples=3")
    write_run(context)
    data = gather(context, finished(context))

    all_labels, first_bin = data.metrics
    assert all_labels == ("P", 1, "all", 0.5, 0.4, 0.6, 1)
    assert isnan(first_bin.value)
    assert isnan(first_bin.low)

    profile = data.profile
    assert (profile.train_instances, profile.test_instances, profile.labels) == (3, 1, 4)
    assert profile.positives_per_label == Distribution((0, 3, 0, 0, 1), 15, 12)
    assert profile.labels_per_instance == Distribution((0, 1, 2), 6, 3)
    assert profile.text_length == Distribution((1, 0, 0, 1, 1), 13, 9)
    assert (profile.tail_labels, profile.tail_positives) == (3, 3)

    root, leaves = data.levels
    assert (root.level, root.nodes, root.labels) == (0, 1, (4, 4, 4))
    assert (leaves.nodes, leaves.children, leaves.rows) == (2, (1, 2, 3), (2, 2, 3))
    assert [unit.predicted_load for unit in data.units] == [1e9, 2e9, 3e9]

    [example] = data.examples
    assert example == ("red socks of wool", [("one", 0.75, True), ("key3", 0.5, False)], 1)
    assert data.previous is None
    assert data.publication is None
    assert data.counts["weights"] == 40
    Outline(report_page(data))


def test_labels_that_occur_together_are_named_the_most_likely_first(make_context):
    context = make_context(None)
    write_run(context)
    rows = [
        (0, [0, 1, 2, 3], [12, 1, 6, 3], [1.0, 1 / 12, 0.5, 0.25]),
        (1, [1], [1], [1.0]),
    ]
    write_table(context, "cooccurrence", rows)
    [found] = gather(context, finished(context)).neighbours
    assert (found.name, found.instances, found.known) == ("zero", 12, 3)
    assert [(one.name, one.together) for one in found.best] == [("two", 6), ("key3", 3), ("one", 1)]
    assert found.best[0].probability == pytest.approx(0.5)


def test_drift_is_against_the_run_that_was_served_when_this_one_came(make_context):
    old = make_context(None, run="old")
    write_run(old, precision=0.25)
    kept = gather(old, finished(old, corpus={"train_instances": 2, "labels_active": 4})).profile
    old.fs.write_text(f"{old.run.uri}/summary.json", json.dumps({"profile": kept.to_json()}))
    new = make_context(None, run="new")
    write_run(new)
    outcomes = finished(new)
    publish(old, 1, "old")
    publish(new, 2, "new")
    publish(new, 3, "later")  # came after it, and says nothing about it

    data = gather(new, outcomes, base=old.run)
    assert data.publication == 2
    assert data.base == "old"
    previous = data.previous
    assert (previous.run, previous.published_at) == ("old", "2026-03-01T04:00:00+00:00")
    assert [row.value for row in previous.metrics if row.bin == "all"] == [0.25]
    assert previous.counts["training instances"] == 2
    assert previous.profile == kept

    new.fs.delete(old.run.uri)  # pruned: only its name is left
    pruned = gather(new, outcomes, base=old.run).previous
    assert (pruned.run, pruned.metrics, pruned.counts, pruned.profile) == ("old", (), {}, None)


def test_a_run_that_the_gates_refuse_has_a_report_that_says_so_until_it_is_published(
    make_context, monkeypatch, capsys
):
    from jobs import publish
    from xmcspark import refresh_spark

    context = make_context(None)
    write_run(context)
    outcomes = finished(context)

    def stages(spark, config, run, base, some):
        if some[-1].name == "publish":
            raise RefusedError("run test is not published: P@1 fell by <0.3>")
        return outcomes

    monkeypatch.setattr(refresh_spark, "open_run", lambda spark, config: (context.run, None))
    monkeypatch.setattr(refresh_spark, "run_stages", stages)
    with monkeypatch.context() as broken:
        broken.setattr(refresh_spark, "gathered", lambda *_: 1 / 0)
        with pytest.raises(RefusedError):  # a report that fails hides no refusal
            refresh_spark.refresh(context.spark, context.config)
    left = f"{context.run.uri}/scratch/left"
    context.fs.write_text(left, "by a stage")
    with pytest.raises(RefusedError):
        refresh_spark.refresh(context.spark, context.config)
    assert not context.fs.exists(left)
    printed = capsys.readouterr().out
    assert "50.00" in printed, "people look at the numbers of a run that was refused"
    assert "Next: look at why it was refused" in printed
    page = context.fs.read_text(f"{context.run.uri}/report.html")
    assert "P@1 fell by &lt;0.3&gt;" in page
    summary = json.loads(context.fs.read_text(f"{context.run.uri}/summary.json"))
    assert summary["metrics"] == {"P@1": 0.5}
    assert summary["profile"]["labels"] == 4

    monkeypatch.setattr(publish, "dated", lambda spark, config: config)
    monkeypatch.setattr(publish, "open_run", lambda spark, config, create: (context.run, None))
    monkeypatch.setattr(publish, "run_stage", lambda *_: outcomes[-1])
    publish.work(SimpleNamespace(spark=context.spark, config=context.config))
    page = context.fs.read_text(f"{context.run.uri}/report.html")
    assert "P@1 fell" not in page, "somebody published it by hand"
