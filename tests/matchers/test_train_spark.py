"""Training on Spark gives the local model, however rows, waves and tasks are laid out, and goes on where it stopped."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from training_run import folder_bytes, local_model, training_problem, write_inputs

from xmcspark.errors import InputError
from xmcspark.matchers import schedule, train_spark, wave_runs_spark, wave_spark
from xmcspark.matchers.train_spark import STAGE
from xmcspark.store.stage import read_table
from xmcspark.tree.units import node_starts


def trained(make_context, problem, *overrides, run="test", partitions=2, seed=0):
    members = f"ensemble.members={len(problem.trees)}"
    context = make_context(STAGE, "seed=5", members, *overrides, run=run)
    write_inputs(context, problem, partitions, seed)
    STAGE.run(context)
    return context


def table_of(context):
    """{(member, node, child): (is_label, bias, features, weights, positives)}"""
    rows = read_table(context.spark, context.run, "matchers").collect()
    found = {
        (r.member, r.node, r.child): (r.is_label, np.float32(r.bias), r.features, r.weights, r.positives)
        for r in rows
    }
    assert len(found) == len(rows) == context.rows["matchers"]
    return found


def model_folder(context, member=0):
    return Path(context.fs.local_path(context.run.folder("bundle/model"))) / str(member)


def assert_is_local_model(context, problem, tmp_path):
    table = table_of(context)
    for member, tree in enumerate(problem.trees):
        model = local_model(problem, member, context.config.train.alone, context.config.augment)
        model.searcher.save(tmp_path / "local" / str(member))
        assert folder_bytes(model_folder(context, member)) == folder_bytes(tmp_path / "local" / str(member))
        starts = node_starts(tree)
        for t, matchers in enumerate(model.matchers):
            last = t == tree.depth - 1
            for child in range(len(matchers.bias)):
                node = int(starts[t] + np.searchsorted(tree.child_ptr[t], child, side="right") - 1)
                name = int(tree.labels[child] if last else starts[t + 1] + child)
                is_label, bias, features, weights, _ = table.pop((member, node, name))
                at = slice(matchers.weights.indptr[child], matchers.weights.indptr[child + 1])
                assert (is_label, bias) == (last, matchers.bias[child])
                assert features == matchers.weights.indices[at].tolist()
                assert weights == matchers.weights.data[at].tolist()
    assert not table


def test_the_model_is_the_local_one_for_two_members_in_four_waves(make_context, tmp_path):
    problem = training_problem(members=2)
    context = trained(make_context, problem, "train.waves=4", partitions=3)
    assert_is_local_model(context, problem, tmp_path)
    assert (context.notes["waves_trained"], context.notes["waves_reused"]) == (4, 0)


@pytest.mark.parametrize(("partitions", "seed", "waves"), [(1, 1, 1), (7, 2, 4)])
def test_partitions_row_order_and_waves_leave_no_trace(make_context, tmp_path, partitions, seed, waves):
    problem = training_problem()
    context = trained(make_context, problem, f"train.waves={waves}", partitions=partitions, seed=seed)
    assert_is_local_model(context, problem, tmp_path)


def test_rows_sent_by_value_train_the_same_model(make_context, tmp_path, monkeypatch):
    monkeypatch.setattr(
        wave_spark, "common_folder", lambda context, name: nullcontext()
    )  # as where tasks see no common disk
    problem = training_problem()
    assert_is_local_model(trained(make_context, problem), problem, tmp_path)


def test_soft_targets_train_the_local_model(make_context, tmp_path):
    problem = training_problem(soft=True)
    assert 0 < (problem.Y.data < 1).sum() < problem.Y.nnz
    for negatives in (1, 0):
        how = (f"augment.negatives={negatives}", "augment.weight=0.3", "train.waves=2")
        context = trained(make_context, problem, *how, run=f"negatives-{negatives}")
        assert_is_local_model(context, problem, tmp_path / str(negatives))


def test_relevance_counts_over_the_whole_row(make_context, tmp_path):
    problem = training_problem()
    context = trained(
        make_context, problem, "train.cost_sensitive=true", "train.loss=logistic", "train.waves=2"
    )
    # A label outside the tree has no relevance either.
    assert_is_local_model(context, problem, tmp_path)
    assert_costs_are_told(context, problem)


def assert_costs_are_told(context, problem):
    load = read_table(context.spark, context.run, "sub_tree_load").collect()
    root = next(row for row in load if row.sub_tree == 0)
    assert (root.node, root.nodes, root.rows, root.nnz) == (0, 1, 400, problem.X.nnz)
    assert {row.wave for row in load} == {0, 1}
    assert sum(row.matchers for row in load) == context.rows["matchers"]
    for row in load:
        assert min(row.seconds, row.peak_bytes, row.predicted_load, row.predicted_bytes) > 0


def test_without_a_tree_the_root_is_trained_in_pieces(make_context, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SMALLEST_TASK", 1)
    problem = training_problem(shape=())
    context = trained(make_context, problem)
    assert context.notes["tasks"] == 3
    assert_is_local_model(context, problem, tmp_path)
    load = read_table(context.spark, context.run, "sub_tree_load").collect()
    assert [(row.rows, row.matchers) for row in load] == [(400, 89)]


def test_nodes_train_on_at_most_max_rows(make_context, tmp_path):
    problem = training_problem(rows=900)
    context = trained(make_context, problem, "train.max_rows=150", "train.waves=2")
    assert context.notes["capped_nodes"] >= 1
    load = read_table(context.spark, context.run, "sub_tree_load").where("nodes = 1").collect()
    assert 0 < max(row.rows for row in load) <= 150
    assert_is_local_model(context, problem, tmp_path)


class TroubleError(RuntimeError):
    pass


def test_a_run_that_failed_goes_on_where_it_stopped(make_context, tmp_path, monkeypatch):
    problem = training_problem()
    whole = wave_runs_spark.routed_rows

    def fails(context, rows, forest, wave):
        if wave.number == 2:
            raise TroubleError
        return whole(context, rows, forest, wave)

    monkeypatch.setattr(wave_runs_spark, "routed_rows", fails)
    with pytest.raises(TroubleError):
        trained(make_context, problem, "train.waves=4")
    stages = Path(make_context(STAGE).fs.local_path(make_context(STAGE).run.folder("stages")))
    finished = {path.name for path in stages.glob("train.wave-*.json")}
    assert {"train.wave-0.json", "train.wave-1.json"} <= finished
    assert "train.wave-2.json" not in finished
    table = stages.parent / "tables" / "matchers"
    before = {path: path.stat().st_mtime_ns for path in table.glob("wave=[01]/*.parquet")}
    (table / "wave=2").mkdir()
    (table / "wave=2" / "part-of-a-killed-run.parquet").write_bytes(b"half")
    next(iter(before)).with_name("part-not-listed.parquet").write_bytes(b"half")

    monkeypatch.setattr(wave_runs_spark, "routed_rows", whole)
    context = trained(make_context, problem, "train.waves=4", seed=3)
    assert context.notes["waves_reused"] == len(finished)
    assert context.notes["waves_trained"] == 4 - len(finished)
    assert {path: path.stat().st_mtime_ns for path in table.glob("wave=[01]/*.parquet")} == before
    assert not list(table.glob("wave=2/part-of-a-killed-run.parquet"))
    assert_is_local_model(context, problem, tmp_path)
    load = read_table(context.spark, context.run, "sub_tree_load").collect()
    assert all(row.seconds > 0 for row in load)  # also of the waves that were trained before


def test_a_wave_whose_files_are_gone_or_whose_units_are_others_is_trained_again(make_context, tmp_path):
    problem = training_problem(labels=30, shape=(3,))
    context = trained(make_context, problem, "train.waves=2")
    table = Path(context.fs.local_path(context.run.table("matchers")))
    next(table.glob("wave=0/*.parquet")).unlink()
    again = trained(make_context, problem, "train.waves=2")
    assert (again.notes["waves_reused"], again.notes["waves_trained"]) == (1, 1)
    fewer = trained(make_context, problem, "train.waves=1")
    assert (fewer.notes["waves_reused"], fewer.notes["waves_trained"]) == (0, 1)
    assert [path.name for path in table.iterdir() if path.is_dir()] == ["wave=0"]
    assert len(list((table.parents[1] / "stages").glob("train.wave-*"))) == 1
    assert_is_local_model(fewer, problem, tmp_path)


def test_a_unit_that_does_not_fit_is_refused_with_advice(make_context):
    with pytest.raises(
        InputError, match=r"unit 0 of member 0 .*400 rows.*MB.*100 MB.*train.max_rows.*sub_trees"
    ):
        trained(make_context, training_problem(), "train.task_memory_mb=100")


@pytest.mark.parametrize(
    ("negatives", "partitions", "members", "overrides"),
    [
        ("man", 1, 2, ()),
        ("tfn+man", 3, 1, ("train.max_rows=150", "train.cost_sensitive=true")),
    ],
)
def test_negatives_of_the_beam_are_those_of_the_local_library(
    make_context, tmp_path, negatives, partitions, members, overrides
):
    problem = training_problem(members=members)
    how = f"train.negatives={negatives}", "train.man_beam=2", *overrides
    context = trained(make_context, problem, *how, partitions=partitions, seed=partitions)
    assert (context.notes["capped_nodes"] > 4) == bool(overrides)  # more than true parents alone would crowd
    assert_is_local_model(context, problem, tmp_path)
    load = read_table(context.spark, context.run, "sub_tree_load").collect()
    assert sum(row.matchers for row in load) == context.rows["matchers"]
    assert sum(row.nodes for row in load) == sum(node_starts(tree)[-1] for tree in problem.trees)


def test_a_run_that_stopped_between_levels_goes_on_with_the_level_it_had_not_begun(
    make_context, tmp_path, monkeypatch
):
    problem = training_problem()
    how = "train.negatives=tfn+man", "train.man_beam=2", "train.waves=1"  # one for each level
    whole = train_spark.forest_of_level

    def fails(context, rows, forest, level, *more):
        if level == 2:
            raise TroubleError
        return whole(context, rows, forest, level, *more)

    monkeypatch.setattr(train_spark, "forest_of_level", fails)
    with pytest.raises(TroubleError):
        trained(make_context, problem, *how)
    levels = []

    def told(context, rows, forest, level, *more):
        levels.append(level)
        return whole(context, rows, forest, level, *more)

    monkeypatch.setattr(train_spark, "forest_of_level", told)
    context = trained(make_context, problem, *how, seed=3)
    assert (levels, context.notes["waves_reused"], context.notes["waves_trained"]) == ([2], 2, 1)
    assert_is_local_model(context, problem, tmp_path)
