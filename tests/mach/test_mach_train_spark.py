"""Repetitions trained on Spark are those of the library, however rows are laid out, each by itself: what a failed run
had finished is not trained again."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import RDD
from training_run import FEATURES, folder_bytes, local_model, training_problem, write_inputs

from xmcspark.errors import ConfigError, InputError
from xmcspark.mach import repetition_runs_spark, repetition_spark
from xmcspark.mach import train_spark as mach_train_spark
from xmcspark.mach.linear import train_linear
from xmcspark.mach.model import Sketch
from xmcspark.mach.repetition import Part
from xmcspark.mach.repetition_spark import SketchPlan
from xmcspark.mach.training_rows import gathered_rows
from xmcspark.matchers import train_spark
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.members import Members
from xmcspark.matchers.model_spark import member_settings
from xmcspark.matchers.train_spark import STAGE
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.store.direct_tables import FrameRows
from xmcspark.store.runs import StageRecord
from xmcspark.store.stage import read_table, stage_key
from xmcspark.store.tables import TABLES
from xmcspark.tree import index_spark

LABELS = 90  # the last one is not active, and the fifth has no rows
SMALL = ("seed=5", "method=mach", "mach.buckets=20", "mach.repetitions=4")


def trained(
    make_context,
    problem,
    *overrides,
    run="test",
    partitions=2,
    seed=0,
    other_label=LABELS - 1,
    features_key="v",
):
    context = make_context(STAGE, *SMALL, *overrides, run=run)
    write_inputs(context, problem, partitions, seed, other_label=other_label)
    write_labels(context)
    noted = {"features": FEATURES, "nnz": problem.X.nnz}
    context.run.finish(StageRecord("vectorize", features_key, 0.0, {}, noted, ["features"]))
    STAGE.run(context)
    return context


def write_labels(context):
    labels = [(i, str(i), str(i), i != LABELS - 1, 1, None, None) for i in range(LABELS)]
    frame = context.spark.createDataFrame(labels, TABLES["labels"].schema)
    frame.write.mode("overwrite").parquet(context.run.table("labels"))


def live():
    found = np.ones(LABELS, bool)
    found[[4, LABELS - 1]] = False
    return found


def sketch_folder(context):
    return Path(context.fs.local_path(context.run.folder("bundle/model"))) / "mach"


def local_repetition(problem, context, number):
    """Rows that have soft targets have the weights of made ones, as an augmentation would give them."""
    soft = np.minimum.reduceat(np.append(problem.Y.data, 1), problem.Y.indptr[:-1]) < 1
    soft &= np.diff(problem.Y.indptr) > 0
    augment, settings = context.config.augment, context.config.train.alone
    return train_linear(
        problem.X,
        problem.Y,
        Part(number, 5, 20, LABELS, FEATURES),
        settings,
        relevance=problem.R if settings.cost_sensitive else None,
        row_keys=problem.keys,
        row_weights=np.where(soft, np.float32(augment.weight), np.float32(1)),
        row_negatives=np.where(soft, np.float32(augment.negatives), np.float32(1)),
    )


def assert_is_local(context, problem, tmp_path):
    for number in range(4):
        local_repetition(problem, context, number).save(tmp_path / "local" / str(number))
        assert folder_bytes(sketch_folder(context) / str(number)) == folder_bytes(
            tmp_path / "local" / str(number)
        )


@pytest.mark.parametrize(
    ("overrides", "soft", "partitions", "seed"),
    [((), False, 2, 0), ((), True, 5, 1), (("train.cost_sensitive=true",), False, 1, 2)],
)
def test_repetitions_are_the_local_ones(make_context, tmp_path, overrides, soft, partitions, seed):
    problem = training_problem(soft=soft)
    context = trained(make_context, problem, *overrides, partitions=partitions, seed=seed)
    assert_is_local(context, problem, tmp_path)
    sketch = Sketch.load(sketch_folder(context))
    assert np.array_equal(sketch.live, live())
    rows = read_table(context.spark, context.run, "matchers").collect()
    assert len(rows) == context.rows["matchers"] == 4 * 20
    some = next(row for row in rows if (row.member, row.child) == (3, 7))
    dense = np.zeros(FEATURES, np.float32)
    dense[some.features] = some.weights
    identity = as_csr(np.eye(FEATURES, dtype=np.float32))
    margins = sketch.repetitions[3].margins(identity)[:, 7]
    assert np.allclose(margins, dense + some.bias, atol=1e-6)
    loads = read_table(context.spark, context.run, "sub_tree_load").collect()
    assert sorted(row.member for row in loads) == [0, 1, 2, 3]
    assert all(row.seconds > 0 and row.peak_bytes > 0 for row in loads)


def test_tasks_join_the_labels_they_met_before_the_driver_gets_them(make_context, monkeypatch):
    context = make_context(STAGE, *SMALL)
    write_labels(context)
    rows = [([label, LABELS - 1],) for label in range(LABELS - 1) if label != 4]
    frame = context.spark.createDataFrame(rows, "labels array<int>").repartition(30)
    sent, collect = [], RDD.collect

    def counted(rdd):
        found = collect(rdd)
        sent.append(len(found))
        return found

    monkeypatch.setattr(RDD, "collect", counted)
    found = mach_train_spark.labels_to_predict(context, FrameRows(frame))
    assert np.array_equal(found, live())
    assert sum(sent) < 10
    nothing = mach_train_spark.labels_to_predict(context, FrameRows(frame.where("false")))
    assert not nothing.any()


class TroubleError(RuntimeError):
    pass


def test_only_repetitions_that_are_not_finished_are_trained_again(make_context, tmp_path, monkeypatch):
    problem, whole = training_problem(), repetition_runs_spark.trained_files

    def fails(rows, plan, repetition, folder):
        if repetition == 2:
            raise TroubleError
        return whole(rows, plan, repetition, folder)

    monkeypatch.setattr(repetition_runs_spark, "trained_files", fails)
    with pytest.raises(TroubleError):
        trained(make_context, problem)
    monkeypatch.setattr(repetition_runs_spark, "trained_files", whole)
    context = make_context(STAGE)
    finished = len(list(Path(context.fs.local_path(context.run.folder("stages"))).glob("train.repetition-*")))
    assert finished >= 1
    context = trained(make_context, problem, seed=3)
    assert context.notes["repetitions_reused"] == finished
    assert context.notes["repetitions_trained"] == 4 - finished
    assert_is_local(context, problem, tmp_path)

    (sketch_folder(context) / "1" / "values.npy").unlink()
    again = trained(make_context, problem)
    assert (again.notes["repetitions_reused"], again.notes["repetitions_trained"]) == (3, 1)
    assert_is_local(again, problem, tmp_path)


def reused(context):
    return context.notes["repetitions_reused"], context.notes["repetitions_trained"]


def test_more_repetitions_keep_those_that_are_there_and_fewer_leave_none_behind(make_context, tmp_path):
    problem = training_problem()
    assert reused(trained(make_context, problem, "mach.repetitions=2")) == (0, 2)
    more = trained(make_context, problem, "predict.top_k=3", "mach.recovery=exact", "train.waves=2")
    assert reused(more) == (2, 2)
    assert_is_local(more, problem, tmp_path)
    assert len(Sketch.load(sketch_folder(more)).repetitions) == 4
    fewer = trained(make_context, problem, "mach.repetitions=3")
    assert reused(fewer) == (3, 0)
    assert not (sketch_folder(fewer) / "3").exists()
    assert len(Sketch.load(sketch_folder(fewer)).repetitions) == 3


def test_repetitions_from_other_inputs_are_trained_again(make_context):
    problem, one = training_problem(), "mach.repetitions=1"
    trained(make_context, problem, one)
    for change in ("seed=6", "mach.buckets=21", "train.threshold=0.3", "augment.weight=0.5"):
        assert reused(trained(make_context, problem, one, change)) == (0, 1), change
    trained(make_context, problem, one)
    assert reused(trained(make_context, problem, one, features_key="w")) == (0, 1)


def test_without_trees_nothing_is_learned_again_for_another_number_of_predictions(make_context):
    for stage in (index_spark.STAGE, STAGE):
        keys = [stage_key(stage, make_context(stage, *SMALL, f"predict.top_k={k}")) for k in (3, 5)]
        assert keys[0] == keys[1]
    assert "tree/" not in STAGE.needed(make_context(STAGE, *SMALL).config)
    assert "tree/" in STAGE.needed(make_context(STAGE, *SMALL, "ensemble.members=1").config)


def test_a_sketch_beside_a_tree_is_an_ensemble(make_context, tmp_path):
    problem = training_problem()
    context = trained(make_context, problem, "ensemble.members=1", "ensemble.fusion=normalised")
    tree = local_model(problem, 0, context.config.train.alone, context.config.augment)
    tree.searcher.save(tmp_path / "tree")
    assert folder_bytes(sketch_folder(context).parent / "0") == folder_bytes(tmp_path / "tree")
    assert_is_local(context, problem, tmp_path)
    members = {row.member for row in read_table(context.spark, context.run, "matchers").collect()}
    assert members == {0, 1, 2, 3, 4}

    settings = member_settings(context.config, context.run)
    opened = Members.load(sketch_folder(context).parent, settings)
    X = as_csr(problem.X[:20])
    nothing = Csr(np.zeros(21, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), (20, LABELS))
    found = opened.predict(X, nothing, beam=5, top_k=5)
    alone = [
        tree.searcher.predict(X, beam=5, top_k=5),
        Sketch.load(sketch_folder(context), settings.mach).predict(X, top_k=5),
    ]
    expected = fuse(alone, "normalised", top_k=5)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)

    alone = trained(make_context, problem)  # the same run, now without the tree
    assert reused(alone) == (4, 0)
    assert sorted(path.name for path in sketch_folder(alone).parent.iterdir()) == ["mach"]


def test_what_cannot_be_trained_is_refused_before_it_is(make_context):
    problem = training_problem()
    with pytest.raises(ConfigError, match=r"mach.buckets is 88 with 88 labels"):
        trained(make_context, problem, "mach.buckets=88")
    with pytest.raises(ConfigError, match=r"predict.top_k is 89 with 88 labels"):
        trained(make_context, problem, "predict.top_k=89")
    with pytest.raises(InputError, match="a repetition of MACH would take about"):
        trained(make_context, problem, "train.task_memory_mb=100")


def test_beside_a_tree_too_it_is_refused_before_anything_is_trained(make_context, monkeypatch):
    def too_late(context):
        raise AssertionError("the tree was trained")

    monkeypatch.setattr(train_spark, "_train_trees", too_late)
    problem, tree = training_problem(), ("ensemble.members=1", "ensemble.fusion=normalised")
    with pytest.raises(ConfigError, match=r"mach.buckets is 88 with 88 labels"):
        trained(make_context, problem, *tree, "mach.buckets=88")
    with pytest.raises(InputError, match="a repetition of MACH would take about"):
        trained(make_context, problem, *tree, "train.task_memory_mb=100")


def test_labels_outside_of_the_hashed_range_are_refused_and_not_left_out(make_context):
    with pytest.raises(
        Exception, match=r"names label 90, but the table labels ends at 89: .* from corpus on"
    ):
        trained(make_context, training_problem(), other_label=LABELS)
    table = pa.table({"indices": [[1]], "values": [[1.0]], "labels": [[2, LABELS]], "targets": [[0.5, 1.0]]})
    with pytest.raises(InputError, match=r"names label 90, .* run it again from corpus on"):
        gathered_rows(table.to_batches(), FEATURES, np.ones(LABELS, bool), relevance=False)


def test_a_learner_that_tasks_cannot_train_is_refused_before_rows_are_gathered(make_context, monkeypatch):
    def missing(settings):
        return f"no torch for {settings.learner}"

    monkeypatch.setattr(mach_train_spark, "learner_problem", missing)
    monkeypatch.setattr(mach_train_spark, "labels_to_predict", None)
    with pytest.raises(ConfigError, match="no torch for mlp"):
        trained(make_context, training_problem(), "mach.learner=mlp")

    monkeypatch.setattr(repetition_spark, "learner_problem", missing)
    context = make_context(STAGE, *SMALL, "mach.learner=mlp")
    plan = SketchPlan(context.config.mach, context.config.train.alone, FEATURES, None, LABELS, (1, 1), 1, 0)
    rows = iter([])
    with pytest.raises(ConfigError, match="no torch for mlp"):
        next(repetition_spark._training(plan, 0, None)(rows))
