"""Runs fused on Spark: as arrays are, however their labels are numbered and their tables cut; other instances are
refused."""

import json

import numpy as np
import pytest
from run_tables import write_table

from jobs import submit
from xmcspark.errors import ConfigError, InputError, StoreError
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.fuse_spark import Fusing, fuse_runs
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.compare_spark import compare_runs
from xmcspark.quality.evaluate_spark import STAGE
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.csr import as_csr
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import StageRecord
from xmcspark.store.stage import read_table

N_ROWS, N_LABELS, N_TRAIN, K = 40, 15, 30, 4
COUNTS = np.minimum(np.arange(N_LABELS) + 1, N_TRAIN)
SMALL = ("evaluate.ks=[1, 3]", "evaluate.bootstrap=0", f"predict.top_k={K}", "refresh.examples=1")


def truth():
    return (np.random.default_rng(0).random((N_ROWS, N_LABELS)) < 0.2).astype(np.float32)


def found_by(seed):
    rng = np.random.default_rng(seed)
    labels = np.array([rng.permutation(N_LABELS)[:K] for _ in range(N_ROWS)], np.int32)
    return Predictions(labels, -np.sort(-rng.random((N_ROWS, K)).astype(np.float32), axis=1))


def a_run(
    make_context, name, seed, numbers=None, *, partitions=2, rows=range(N_ROWS), more=(), other_truth=()
):
    """A run whose label i has the number numbers[i]; `more`: keys of labels that only it has."""
    numbers = np.arange(N_LABELS) if numbers is None else numbers
    context, Y, found = make_context(STAGE, *SMALL, run=name), truth(), found_by(seed)
    for row in other_truth:
        Y[row] = 1 - Y[row]
    instances = [(f"t{row}", "train", "corpus", "a", [0], [1.0], row) for row in range(N_TRAIN)]
    for row in rows:
        labels = np.sort(numbers[np.flatnonzero(Y[row])]).tolist()
        instances.append((f"i{row}", "test", "corpus", "b", labels, [1.0] * len(labels), 0))
    write_table(context, "instances", instances, partitions)
    labels = [(int(n), f"L{i}", None, True, int(COUNTS[i]), None, None) for i, n in enumerate(numbers)]
    labels += [(int(numbers.max()) + 1 + i, key, key, True, 9, None, None) for i, key in enumerate(more)]
    write_table(context, "labels", labels)
    ranked = []
    for row in rows:
        best = numbers[found.labels[row]].tolist()
        if more and row == min(rows):  # it finds a label that no other run knows
            best[-1] = int(numbers.max()) + 1
        ranked.append((f"i{row}", best, found.scores[row].tolist(), "test", "m"))
    write_table(context, "predictions", ranked, partitions)
    context.run.finish(StageRecord("predict", name, 0.0))
    context.fs.write_text(joined(context.run.uri, "run.json"), json.dumps({"config": {"predict": {}}}))
    return context


def fused_run(spark, members, fusion="average", weights=None, name=None):
    config = members[0].config
    fusing = Fusing(
        tuple(member.run for member in members), fusion, tuple(weights or [1.0] * len(members)), K
    )
    return fuse_runs(spark, submit.replace(config, run=submit.replace(config.run, id=name)), fusing)


def predictions_of(spark, run):
    rows = {row["id"]: row for row in read_table(spark, run, "predictions").collect()}
    assert {(row["split"], row["method"]) for row in rows.values()} == {("test", "fused")}
    ordered = [rows[f"i{row}"] for row in range(N_ROWS)]
    return [[row["labels"] for row in ordered], [row["scores"] for row in ordered]]


def test_runs_are_fused_as_arrays_are_whatever_their_numbers_and_partitions(spark, make_context):
    weights = [2.0, 1.0, 0.5]
    turned = np.random.default_rng(3).permutation(N_LABELS).astype(np.int32) + 5
    members = [
        a_run(make_context, "a", 1),
        a_run(make_context, "b", 2, turned, partitions=1),
        a_run(make_context, "c", 3, partitions=5),
    ]
    run = fused_run(spark, members, "average", weights)
    wanted = fuse([found_by(seed) for seed in (1, 2, 3)], "average", weights, K)
    labels, scores = predictions_of(spark, run)
    np.testing.assert_array_equal(labels, wanted.labels)
    np.testing.assert_array_equal(np.array(scores, np.float32), wanted.scores)
    measured = {
        (row["metric"], row["k"]): row["value"]
        for row in read_table(spark, run, "metrics").collect()
        if row["bin"] == "all"
    }
    profile = LabelProfile.from_counts(COUNTS, N_TRAIN)
    for row in evaluate(wanted, as_csr(truth()), profile, ks=(1, 3), bootstrap=0):
        if row.bin == "all":
            assert measured[row.metric, row.k] == row.value


def test_a_fused_run_is_found_again_compared_and_has_a_report(spark, make_context, capsys):
    members = [a_run(make_context, "a", 1), a_run(make_context, "b", 2)]
    run = fused_run(spark, members)
    before = {record.stage: record.finished_at for record in run.records()}
    assert set(before) == {"corpus", "predict", "evaluate"}
    assert fused_run(spark, members).id == run.id
    assert {record.stage: record.finished_at for record in run.records()} == before
    assert "skipped" in capsys.readouterr().out
    assert not run.fs.exists(joined(run.uri, "scratch"))
    found = compare_runs(spark, members[0].config, run, members[0].run, replicates=99)
    assert found.instances == N_ROWS
    page = run.fs.read_text(joined(run.uri, "report.html"))
    assert "fused: a, b" in page


def test_a_label_that_only_one_run_has_keeps_its_key(spark, make_context):
    members = [
        a_run(make_context, "a", 1, np.arange(N_LABELS, dtype=np.int32) + 2),
        a_run(make_context, "b", 2, more=["new", "newer"]),
        a_run(make_context, "c", 3, more=["newer", "newest"]),
    ]
    run = fused_run(spark, members, "rank")
    labels = {row["key"]: row for row in read_table(spark, run, "labels").collect()}
    assert len(labels) == N_LABELS + 3
    assert len({row["id"] for row in labels.values()}) == len(labels)
    assert [labels[f"L{i}"]["id"] for i in range(N_LABELS)] == list(range(2, N_LABELS + 2))
    assert [labels[key]["positives"] for key in ("new", "newer", "newest", "L3")] == [0, 0, 0, 4]
    first = read_table(spark, run, "predictions").where("id = 'i0'").collect()[0]["labels"]
    wanted = [[f"L{label}" for label in found_by(seed).labels[0]] for seed in (1, 2, 3)]
    wanted[1][-1], wanted[2][-1] = "new", "newer"
    keys = {row["id"]: key for key, row in labels.items()}
    score = {
        key: sum(1 / (61 + names.index(key)) for names in wanted if key in names)
        for key in {key for names in wanted for key in names}
    }
    best = sorted(score, key=lambda key: (-score[key], labels[key]["id"]))[:K]
    assert [keys[label] for label in first] == best


def test_runs_of_other_instances_are_refused(spark, make_context):
    ours = a_run(make_context, "a", 1)
    fewer = a_run(make_context, "fewer", 2, rows=range(3, N_ROWS))
    with pytest.raises(
        InputError, match=r"a and fewer differ in 3 instances .*3 only in the run.*: fuse runs"
    ):
        fused_run(spark, [ours, fewer], name="one")
    other, same = a_run(make_context, "other", 2, other_truth=(1, 2)), a_run(make_context, "same", 3)
    with pytest.raises(InputError, match=r"2 with other true labels"):
        fused_run(spark, [ours, same, other], name="two")
    left = {entry.name for entry in ours.fs.list(ours.run.root)}
    assert left == {"a", "fewer", "other", "same"}  # nothing of the runs that were to be made


def test_runs_that_cannot_be_fused_are_refused_before_anything_is_read(spark, make_context):
    ours, theirs = a_run(make_context, "a", 1), a_run(make_context, "b", 2)
    with pytest.raises(InputError, match=r"--weights has 3 numbers for 2 runs"):
        fused_run(spark, [ours, theirs], weights=[1.0, 1.0, 1.0])
    place = joined(theirs.run.uri, "run.json")
    theirs.fs.write_text(place, json.dumps({"config": {"predict": {"transform": "log-sigmoid"}}}))
    with pytest.raises(ConfigError, match=r"run b has predict.transform log-sigmoid: .*ensemble.fusion=rank"):
        fused_run(spark, [ours, theirs])
    theirs.fs.write_text(place, json.dumps({"config": {"predict": {"exclude_self": True}}}))
    with pytest.raises(InputError, match=r"a and b have different predict.exclude_self"):
        fused_run(spark, [ours, theirs])
    theirs.fs.write_text(place, json.dumps({"config": {"predict": {}}}))
    with pytest.raises(InputError, match=r"run a in .* is no fused run: give .* another name with --run"):
        fused_run(spark, [ours, theirs], "rank", name="a")
    with pytest.raises(InputError, match=r"--runs names run a twice: name each once"):
        fused_run(spark, [ours, theirs, ours])
    theirs.run.forget("predict")
    with pytest.raises(StoreError, match=r"run b: stage predict has not finished"):
        fused_run(spark, [ours, theirs])
    assert sorted(entry.name for entry in ours.fs.list(ours.run.root)) == ["a", "b"]


def test_what_counts_of_a_run_is_how_it_last_predicted_and_not_how_it_was_opened(spark, make_context):
    ours, theirs = a_run(make_context, "a", 1), a_run(make_context, "b", 2)
    opened = {"exclude_self": True, "transform": "identity"}
    theirs.fs.write_text(joined(theirs.run.uri, "run.json"), json.dumps({"config": {"predict": opened}}))

    def predicted_again(exclude_self, trees, transform, sketch, vectors=False):
        scoring = {"trees": trees, "transform": transform, "sketch": sketch, "vectors": vectors}
        notes = {"exclude_self": exclude_self, "scoring": scoring}
        theirs.run.finish(StageRecord("predict", "again", 0.0, notes=notes))

    runs = (ours.run, theirs.run)
    predicted_again(False, 1, "sigmoid", None)
    Fusing(runs, "average", (1.0, 1.0), K)
    predicted_again(False, 0, "identity", ["sigmoid", "mean"])  # no tree has that transform
    Fusing(runs, "average", (1.0, 1.0), K)
    predicted_again(False, 0, "sigmoid", ["sigmoid", "unbiased"])
    with pytest.raises(ConfigError, match=r"run b has mach.aggregate unbiased: its scores may be negative"):
        Fusing(runs, "average", (1.0, 1.0), K)
    predicted_again(False, 0, "sigmoid", None, vectors=True)
    with pytest.raises(ConfigError, match=r"run b has unidec.enabled: its scores may be negative"):
        Fusing(runs, "average", (1.0, 1.0), K)
    predicted_again(True, 1, "sigmoid", None)
    with pytest.raises(InputError, match=r"a and b have different predict.exclude_self"):
        Fusing(runs, "average", (1.0, 1.0), K)


def test_a_split_that_one_run_did_not_predict_is_refused(spark, make_context):
    ours, theirs = a_run(make_context, "a", 1), a_run(make_context, "b", 2)
    write_table(theirs, "predictions", [])
    with pytest.raises(InputError, match=r"no predictions of split test in b: run predict again"):
        fused_run(spark, [ours, theirs], name="one")


def command(*arguments):
    options = submit.parser_of("fuse").parse_args(["--set", "run.root=/r", *arguments])
    return submit.submit_command("fuse", submit.configuration_of(options), options, ["--master", "yarn"])


def test_the_options_of_a_fusion_travel_with_the_job():
    found = command("--runs", "a, b,c", "--weights", "2,1,0.5")
    assert found[found.index("--runs") + 1] == "a,b,c"
    assert found[found.index("--weights") + 1] == "2.0,1.0,0.5"
    assert "--weights" not in command("--runs", "a,b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runs", "a"], "name at least two runs"),
        (["--runs", "a,,b"], "name at least two runs"),
        (["--runs", "a,b,a"], "a is named twice"),
        (["--runs", "a,b", "--weights", "1,nan"], "expected numbers above 0"),
        (["--runs", "a,b", "--weights", "1,0"], "expected numbers above 0"),
        ([], "--runs"),
    ],
)
def test_wrong_options_are_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        command(*arguments)
    assert said in capsys.readouterr().err
