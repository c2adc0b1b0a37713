"""Predictions of the Spark stage are those of the local library, to the last bit, wherever the model is."""

import numpy as np
import pytest
from prediction_run import (
    N_LABELS,
    N_ROWS,
    excluded_matrix,
    models,
    table_rows,
    write_exclude,
    write_features,
    write_labels,
    write_model,
    write_table,
)
from random_model import random_rows

from xmcspark.errors import StoreError
from xmcspark.matchers import routed_spark
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.members import fused
from xmcspark.matchers.predict_spark import STAGE, _mode
from xmcspark.sparse.csr import as_csr
from xmcspark.store.runner import run_stage
from xmcspark.store.runs import StageRecord


def expected(members=1, beam=10, top_k=10, excluded=None, fusion="average", scoring=None):
    """By id: (labels, scores) of the local library."""
    X = as_csr(random_rows(N_ROWS))
    never = as_csr(np.zeros((N_ROWS, N_LABELS)) if excluded is None else excluded)
    chosen = [model.with_scoring(*scoring) if scoring else model for model in models(members)]
    found = fused([search_without(m.searcher, X, never, beam=beam, top_k=top_k) for m in chosen], fusion)
    return {
        f"i{row}": (labels[labels >= 0].tolist(), scores[labels >= 0].tolist())
        for row, (labels, scores) in enumerate(zip(found.labels, found.scores, strict=True))
    }


def predicted(context):
    STAGE.run(context)
    rows = table_rows(context, "predictions")
    assert {(row.split, row.method) for row in rows} <= {("test", context.config.method)}
    found = {row.id: (row.labels, row.scores) for row in rows}
    assert len(found) == len(rows)
    return found


pytestmark = pytest.mark.usefixtures("small_splits")


def prepared(make_context, *overrides, members=1, order=None, partitions=1):
    context = make_context(STAGE, f"ensemble.members={members}", *overrides)
    write_model(context, members)
    write_features(context, order, partitions)
    write_labels(context)
    return context


@pytest.mark.parametrize("partitions", [1, 3, 7])
@pytest.mark.parametrize("mode", ["replicated", "routed"])
def test_predictions_do_not_depend_on_partitions_or_order(make_context, mode, partitions):
    order = np.random.default_rng(partitions).permutation(N_ROWS) if partitions > 1 else None
    context = prepared(make_context, f"predict.mode={mode}", order=order, partitions=partitions)
    assert context.read("features").rdd.getNumPartitions() > partitions
    assert predicted(context) == expected()
    assert context.notes["mode"] == mode


@pytest.mark.parametrize("mode", ["replicated", "routed"])
def test_members_exclusions_and_settings_are_honoured(make_context, monkeypatch, mode):
    monkeypatch.setattr(routed_spark, "_SHARD_LABELS", 20)  # six shards, five partitions that merge
    monkeypatch.setattr(routed_spark, "_MERGED_ROWS", 20)
    context = prepared(
        make_context,
        f"predict.mode={mode}",
        "predict.beam=3",
        "predict.top_k=100",
        "predict.transform=sigmoid",
        "predict.combine=sum",
        "predict.path_weight=0.5",
        "ensemble.fusion=rank",
        members=2,
        partitions=5,
    )
    write_exclude(context)
    found = predicted(context)
    assert found == expected(2, 3, 100, excluded_matrix(), "rank", ("sigmoid", "sum", 0.5))
    assert found["i1"] == ([], [])  # all labels excluded


@pytest.mark.parametrize("mode", ["replicated", "routed"])
def test_an_instance_is_not_predicted_for_itself(make_context, mode):
    context = prepared(make_context, "predict.exclude_self=true", f"predict.mode={mode}", "predict.top_k=5")
    best = {name: labels[0] for name, (labels, _) in expected(top_k=5).items()}
    rows = list(range(20, 50))  # their best label gets their own name
    keys, never = [f"L{label}" for label in range(N_LABELS)], np.zeros((N_ROWS, N_LABELS))
    for row in rows:
        label = best[f"i{row}"]
        if keys[label].startswith("L"):
            keys[label], never[row, label] = f"i{row}", 1.0
    assert never.sum() > 3
    write_labels(context, keys=keys)
    write_table(context, "exclude", [("i3", [best["i3"]])])
    never[3, best["i3"]] = 1.0
    found = predicted(context)
    assert found == expected(top_k=5, excluded=never)
    assert {len(labels) for labels, _ in found.values()} == {5}


@pytest.mark.parametrize("mode", ["replicated", "routed"])
def test_without_instances_to_predict_the_table_is_empty(make_context, mode):
    context = prepared(make_context, f"predict.mode={mode}")
    write_features(context, order=[])
    assert predicted(context) == {}
    assert "no instances in split test" in context.notes["empty"]


def test_auto_routes_what_does_not_fit_the_memory_of_a_node(make_context):
    roomy, narrow = (make_context(STAGE, f"predict.node_memory_mb={size}") for size in (100, 10))
    assert [_mode(context, 30 << 20) for context in (roomy, narrow)] == ["replicated", "routed"]
    measured = make_context(STAGE)
    assert [_mode(measured, size) for size in (1 << 29, 1 << 60)] == ["replicated", "routed"]


def test_the_place_of_the_model_does_not_make_the_stage_run_again(make_context):
    context = prepared(make_context)
    context.run.finish(StageRecord("before", "key", 0.0, writes=list(STAGE.reads)))
    other = make_context(STAGE, "predict.mode=routed").config
    beam = make_context(STAGE, "predict.beam=2").config
    skipped = [
        run_stage(context.spark, config, context.run, None, STAGE).skipped
        for config in (context.config, other, beam)
    ]
    assert skipped == [False, True, False]


def test_a_missing_member_is_named_before_anything_runs(make_context):
    context = prepared(make_context)
    context.config = make_context(STAGE, "ensemble.members=2").config
    with pytest.raises(StoreError, match="no model of member 1: run the stage train"):
        STAGE.run(context)
