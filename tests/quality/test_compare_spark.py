"""Two runs on Spark: compared as arrays are, however they number their labels, on the same instances only."""

import json

import numpy as np
import pyarrow as pa
import pytest
from run_tables import write_table

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.compare_spark import compare_runs
from xmcspark.quality.comparison import compare
from xmcspark.quality.evaluate_spark import STAGE
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.same_instances_spark import named_run
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import StageRecord

N_ROWS, N_LABELS, N_TRAIN, KS = 60, 20, 30, (1, 3)
COUNTS = np.minimum(np.arange(N_LABELS) + 1, N_TRAIN)


def truth():
    return (np.random.default_rng(0).random((N_ROWS, N_LABELS)) < 0.15).astype(np.float32)


def ranked(seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(N_LABELS)[:4] for _ in range(N_ROWS)])


def a_run(make_context, name, best, numbers=None, rows=range(N_ROWS), other_truth=()):
    """A run whose label i has the number numbers[i]."""
    numbers = np.arange(N_LABELS) if numbers is None else numbers
    context, Y = make_context(STAGE, "evaluate.ks=[1, 3]", run=name), truth()
    for row in other_truth:
        Y[row] = 1 - Y[row]
    instances = [(f"t{row}", "train", "corpus", "", [0], [1.0], row) for row in range(N_TRAIN)]
    for row in rows:
        labels = np.sort(numbers[np.flatnonzero(Y[row])]).tolist()
        instances.append((f"i{row}", "test", "corpus", "", labels, [1.0] * len(labels), 0))
    write_table(context, "instances", instances, 2)
    labels = [(int(n), f"L{i}", None, True, int(COUNTS[i]), None, None) for i, n in enumerate(numbers)]
    write_table(context, "labels", labels)
    write_table(
        context,
        "predictions",
        [(f"i{row}", numbers[best[row]].tolist(), [4.0, 3.0, 2.0, 1.0], "test", "m") for row in rows],
        2,
    )
    context.run.finish(StageRecord("predict", name, 0.0))
    context.fs.write_text(joined(context.run.uri, "run.json"), json.dumps({"config": {"predict": {}}}))
    return context


def compared_arrays(best, other, rows=range(N_ROWS)):
    rows, scores = list(rows), np.tile([4.0, 3.0, 2.0, 1.0], (len(list(rows)), 1))
    return compare(
        Predictions(best[rows], scores),
        Predictions(other[rows], scores),
        truth()[rows],
        LabelProfile.from_counts(COUNTS, N_TRAIN),
        KS,
        bootstrap=99,
        row_keys=text_hashes(pa.array([f"i{row}" for row in rows])),
    )


def test_runs_are_compared_as_arrays_are_however_they_number_their_labels(spark, make_context):
    new = a_run(make_context, "new", ranked(1))
    old = a_run(make_context, "old", ranked(2), np.random.default_rng(3).permutation(N_LABELS) + 5)
    found = compare_runs(spark, new.config, new.run, old.run, replicates=99)
    assert repr(found.rows) == repr(compared_arrays(ranked(1), ranked(2)))
    assert (found.instances, sum(found.left_out.values())) == (N_ROWS, 0)
    assert len(json.loads(found.to_json())["rows"]) == len(found.rows)
    assert not new.fs.exists(joined(new.run.uri, "scratch", "compare"))


def test_runs_on_other_instances_are_refused_or_compared_on_what_they_share(spark, make_context):
    new = a_run(make_context, "new", ranked(1), rows=range(5, N_ROWS))
    old = a_run(make_context, "old", ranked(2), rows=range(N_ROWS - 3), other_truth=(20, 21))
    with pytest.raises(
        InputError, match=r"differ in 10 instances .*3 only in the run, 5 only in the other, 2 with"
    ):
        compare_runs(spark, new.config, new.run, old.run, replicates=99)
    found = compare_runs(spark, new.config, new.run, old.run, common=True, replicates=99)
    same = [row for row in range(5, N_ROWS - 3) if row not in (20, 21)]
    assert repr(found.rows) == repr(compared_arrays(ranked(1), ranked(2), same))
    assert found.instances == len(same)


def test_the_other_run_is_named_by_id_or_by_path(spark, make_context):
    run = make_context(STAGE, run="new").run
    run.fs.write_text(joined(run.uri, "run.json"), "{}")
    with pytest.raises(InputError, match=r"no stage of run new .* the runs there are none"):
        named_run(spark, run.root, "new", "--with")
    run.finish(StageRecord("corpus", "key", 1.0))
    assert named_run(spark, run.root, "new", "--with").uri == run.uri
    assert named_run(spark, "/elsewhere", f"{run.root}/new", "--with").uri == run.uri
    with pytest.raises(InputError, match=r"there is no run old in .*; the runs there are new"):
        named_run(spark, run.root, "old", "--with")
