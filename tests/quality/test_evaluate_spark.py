"""Metrics of the Spark stage are those of the local library, to the last bit."""

import logging

import numpy as np
import pyarrow as pa
import pytest
from run_tables import write_table

from xmcspark.matchers.predictions import Predictions
from xmcspark.quality import metric_parts
from xmcspark.quality.error_tables import confusions, instance_errors, label_errors
from xmcspark.quality.evaluate_spark import STAGE
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_parts import counts_table
from xmcspark.quality.metrics import evaluate, partial_metrics
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.stage import read_table

N_ROWS, N_LABELS, N_TRAIN = 80, 40, 50
MISSING_LABELS = (3, 17)  # ids that the labels table does not have
KS = (1, 3, 5, 10)


def problem(seed=0):
    """(ranked labels [rows, 6], relevance [rows, labels], positives of labels)"""
    rng = np.random.default_rng(seed)
    ranked = np.array([rng.permutation(N_LABELS)[:6] for _ in range(N_ROWS)])
    ranked[::5, 3:] = -1
    truth = np.where(rng.random((N_ROWS, N_LABELS)) < 0.1, rng.choice([0.5, 1, 3], (N_ROWS, N_LABELS)), 0)
    counts = np.minimum(rng.zipf(1.5, N_LABELS), N_TRAIN)
    counts[list(MISSING_LABELS)] = 0
    return ranked, truth.astype(np.float32), counts


def prepared(make_context, *overrides, rows=range(N_ROWS), partitions=1, unpredicted=()):
    context = make_context(STAGE, *overrides)
    ranked, truth, counts = problem()
    instances = [(f"t{row}", "train", "corpus", "", [1], [1.0], row) for row in range(N_TRAIN)]
    instances += [(f"a{row}", "train", "gandalf", "", [1], [1.0], row) for row in range(9)]
    instances += [
        (
            f"i{row}",
            "test",
            "corpus",
            "",
            np.flatnonzero(truth[row]).tolist(),
            truth[row][truth[row] > 0].tolist(),
            0,
        )
        for row in rows
    ]
    write_table(context, "instances", instances, partitions)
    labels = [(label, f"L{label}", None, True, int(n), None, None) for label, n in enumerate(counts)]
    write_table(context, "labels", [row for row in labels if row[0] not in MISSING_LABELS], 2)
    predictions = []
    for row in reversed(range(N_ROWS)):
        best = ranked[row][ranked[row] >= 0].tolist()
        if row not in unpredicted:
            predictions.append(
                (f"i{row}", best, [1.0 / (1 + i) for i in range(len(best))], "test", "xr-linear")
            )
    write_table(context, "predictions", predictions, partitions)
    return context


def predictions_of(ranked):
    scores = np.where(ranked >= 0, 1.0 / np.arange(1, ranked.shape[1] + 1), -np.inf)
    return Predictions(ranked, scores)


def expected(ranked, truth, ks=KS, bootstrap=200, **profile):
    rows = evaluate(
        predictions_of(ranked),
        truth,
        LabelProfile.from_counts(problem()[2], N_TRAIN, **profile),
        ks,
        bootstrap=bootstrap,
        row_keys=text_hashes(pa.array([f"i{row}" for row in range(N_ROWS)])),
    )
    return sorted(("xr-linear", "test", *map(str, row)) for row in rows)


def expected_errors(ranked, truth):
    """(rows of instance_errors, rows of label_errors) without split and method."""
    found, Y, counts = predictions_of(ranked), as_csr(truth), problem()[2]
    of_labels = counts_table(partial_metrics(found, Y, LabelProfile.plain(N_LABELS), KS, bootstrap=0).labels)
    instances = instance_errors(found, Y, max(KS))
    labels = label_errors(of_labels, confusions(found, Y, max(KS)), counts[of_labels[:, 0]], KS)
    instances = {"id": pa.array([f"i{row}" for row in range(N_ROWS)]), **instances}
    return [pa.table(columns).to_pylist() for columns in (instances, labels)]


def written_errors(context):
    tables = [read_table(context.spark, context.run, name) for name in ("instance_errors", "label_errors")]
    assert {(row.split, row.method) for table in tables for row in table.collect()} == {("test", "xr-linear")}
    rows = [[row.asDict() for row in table.drop("split", "method").collect()] for table in tables]
    return [
        sorted(rows[0], key=lambda row: int(row["id"][1:])),
        sorted(rows[1], key=lambda row: (row["label"], row["k"])),
    ]


def evaluated(context):
    STAGE.run(context)
    rows = read_table(context.spark, context.run, "metrics").collect()
    return sorted((row.method, row.split, *map(str, row[2:])) for row in rows)


pytestmark = pytest.mark.usefixtures("small_splits")


@pytest.mark.parametrize(("partitions", "block_labels"), [(1, 1 << 20), (3, 9), (7, 1 << 20)])
def test_metrics_do_not_depend_on_partitions_or_order(make_context, monkeypatch, partitions, block_labels):
    monkeypatch.setattr(metric_parts, "_BLOCK_LABELS", block_labels)
    rows = np.random.default_rng(partitions).permutation(N_ROWS) if partitions > 1 else range(N_ROWS)
    context = prepared(make_context, rows=rows, partitions=partitions)
    assert evaluated(context) == expected(*problem()[:2])
    assert context.notes["test"] == {"instances": N_ROWS, "unpredicted": 0, "excluded": 0}
    assert written_errors(context) == expected_errors(*problem()[:2])


def test_settings_decide_ks_and_propensities(make_context):
    context = prepared(
        make_context,
        "evaluate.ks=[2, 7]",
        "evaluate.propensity=amazon",
        "evaluate.propensity_b=3.5",
        "evaluate.bootstrap=0",
        "evaluate.errors=false",
    )
    assert evaluated(context) == expected(*problem()[:2], ks=(2, 7), bootstrap=0, preset="amazon", B=3.5)
    assert STAGE.written(context.config) == ("metrics",)
    assert not context.fs.exists(context.run.table("label_errors"))


def test_instances_without_predictions_are_misses_and_are_told(make_context, caplog):
    context = prepared(make_context, "evaluate.splits=[train, test]", unpredicted=(2, 9))
    ranked, truth, _ = problem()
    ranked[[2, 9]] = -1
    with caplog.at_level(logging.WARNING):
        assert [row for row in evaluated(context) if row[1] == "test"] == expected(ranked, truth)
    assert "2 of 80 instances of split test have no predictions" in caplog.text
    assert context.notes["test"]["unpredicted"] == 2
    errors = read_table(context.spark, context.run, "instance_errors")
    counted = {row.split: row["count"] for row in errors.groupBy("split").count().collect()}
    assert counted == {"train": N_TRAIN + 9, "test": N_ROWS}
    assert context.rows["instance_errors"] == N_TRAIN + 9 + N_ROWS


def test_excluded_labels_are_no_true_labels(make_context):
    context = prepared(make_context, "predict.exclude_self=true")
    ranked, truth, counts = problem()
    first = [np.flatnonzero(truth[row])[:2].tolist() for row in (4, 5)]
    write_table(context, "exclude", [("i4", first[0]), ("i5", [*first[1], 39]), ("nobody", [1])])
    own = int(np.flatnonzero(truth[6])[0])
    labels = [
        (label, "i6" if label == own else f"L{label}", None, True, int(n), None, None)
        for label, n in enumerate(counts)
    ]
    write_table(context, "labels", labels)
    truth[4, first[0]], truth[5, [*first[1], 39]], truth[6, own] = 0, 0, 0
    dropped = int((problem()[1] > 0).sum() - (truth > 0).sum())
    assert dropped >= 3
    assert evaluated(context) == expected(ranked, truth)
    assert context.notes["test"]["excluded"] == dropped
    assert written_errors(context)[0] == expected_errors(ranked, truth)[0]


def test_without_a_test_split_the_table_is_empty_and_says_why(make_context):
    context = prepared(make_context, rows=())
    assert evaluated(context) == []
    assert "no instances" in context.notes["test"]
    assert read_table(context.spark, context.run, "instance_errors").isEmpty()


def test_labels_of_another_run_are_refused_with_the_remedy(make_context):
    context = prepared(make_context, "evaluate.errors=false")
    write_table(context, "labels", [(0, "L0", None, True, 2, None, None)])
    with pytest.raises(Exception, match="run corpus and predict again"):
        STAGE.run(context)
