"""Every metric against its formula, bins, partitions, edge cases and bad input."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import slow_reference as slow
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality import ranking
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_statistics import label_statistics, with_all_labels
from xmcspark.quality.metrics import METRICS, evaluate, finish_metrics, partial_metrics
from xmcspark.quality.propensity import label_counts

COUNTS = np.array([150, 400, 101, 100, 60, 30, 12, 10, 9, 7] + [5] * 5 + [2] * 10 + [1] * 3 + [0] * 2)
N_INSTANCES = 1000
SLOW = {
    "P": slow.precision,
    "R": slow.recall,
    "nDCG": slow.ndcg,
    "wR": slow.weighted_recall,
    "coverage": slow.coverage,
    "macro-F1": slow.macro_f1,
    "micro-F1": slow.micro_f1,
}


def profile():
    return LabelProfile.from_counts(COUNTS, N_INSTANCES)


def by_key(rows):
    return {(row.metric, row.k, row.bin): row for row in rows}


def bins_of(label_profile):
    """Name of each bin and the set of labels in it."""
    for division in label_profile.divisions:
        for b, name in enumerate(division.names):
            yield name, set(np.flatnonzero(division.of_label == b).tolist())


def same(rows, others):
    """Equal to the last bit, NaN included."""
    return [repr(row) for row in rows] == [repr(row) for row in others]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 12))
def test_every_metric_in_every_bin_is_its_formula(seed, rows, k_max):
    predictions, Y = slow.random_case(seed, rows=rows, k=k_max)
    if Y.nnz == 0:
        return
    ks = (1, 3, 5, 20)
    found = by_key(evaluate(predictions, Y, profile(), ks=ks, bootstrap=0))
    inverse = slow.inverse_propensity(COUNTS, N_INSTANCES, 0.55, 1.5)
    for name, labels in bins_of(profile()):
        for k in ks:
            expected = {metric: formula(predictions, Y, k, labels) for metric, formula in SLOW.items()}
            expected["PSP"] = slow.psp(predictions, Y, inverse, k, labels)
            expected["PSnDCG"] = slow.psndcg(predictions, Y, inverse, k, labels)
            for metric, value in expected.items():
                assert found[metric, k, name].value == pytest.approx(value, abs=1e-8, nan_ok=True), (
                    metric,
                    name,
                )


def test_all_metrics_ks_and_bins_are_reported_once_in_order():
    predictions, Y = slow.random_case(0)
    rows = evaluate(predictions, Y, profile(), ks=(5, 1))
    names = ("all", "q1", "q2", "q3", "q4", "q5", "head", "torso", "tail")
    assert [(r.metric, r.k, r.bin) for r in rows] == [
        (m, k, b) for m in METRICS for k in (5, 1) for b in names
    ]


@pytest.mark.parametrize("bins", [("q1", "q2", "q3", "q4", "q5"), ("head", "torso", "tail")])
@pytest.mark.parametrize("metric", ["P", "nDCG", "PSP", "PSnDCG"])
def test_bins_add_up_to_the_whole(metric, bins):
    predictions, Y = slow.random_case(1, rows=300)
    found = by_key(evaluate(predictions, Y, profile()))
    for k in (1, 3, 5, 10):
        assert found[metric, k, "all"].value > 0
        assert sum(found[metric, k, b].value for b in bins) == pytest.approx(
            found[metric, k, "all"].value, abs=1e-9
        )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 60), max_size=5), st.randoms())
def test_metrics_do_not_depend_on_partitions_or_their_order(seed, cuts, random):
    predictions, Y = slow.random_case(seed, rows=60)
    whole = evaluate(predictions, Y, profile(), bootstrap=50)
    borders = [0, *sorted(cuts), 60]  # empty partitions included
    parts = [
        partial_metrics(
            predictions.slice_rows(a, b), Y[a:b], profile(), bootstrap=50, row_keys=np.arange(a, b)
        )
        for a, b in itertools.pairwise(borders)
    ]
    random.shuffle(parts)
    assert same(finish_metrics(sum(parts[1:], parts[0]), profile()), whole)


def test_a_partition_that_knows_only_its_own_labels_gives_the_same():
    predictions, Y = slow.random_case(2, rows=50)
    whole = evaluate(predictions, Y, profile())
    total = None
    for start, stop in ((0, 7), (7, 8), (8, 50)):
        part, y = predictions.slice_rows(start, stop), Y[start:stop]
        seen = np.union1d(part.labels[part.labels >= 0], y.indices)
        places = np.where(part.labels >= 0, np.searchsorted(seen, part.labels), -1)
        partial = partial_metrics(
            Predictions(places, part.scores),
            y[:, seen],
            profile().take(seen),
            row_keys=np.arange(start, stop),
        )
        total = partial if total is None else total + partial
    assert same(finish_metrics(total, profile()), whole)


def test_label_statistics_do_not_depend_on_how_labels_are_partitioned():
    predictions, Y = slow.random_case(3, rows=50)
    counts = partial_metrics(predictions, Y, profile(), ks=(3,)).labels
    metrics = ("coverage", "macro-F1", "micro-F1")
    whole = label_statistics(counts, profile(), (3,), metrics)
    parts = []
    for labels in (np.arange(10, 30), np.arange(10)):
        part = type(counts)(
            labels.astype(np.int32), counts.actual[labels], counts.hits[labels], counts.predicted[labels]
        )
        parts.append(label_statistics(part, profile().take(labels), (3,), metrics))
    assert np.array_equal((parts[0] + parts[1]).values, whole.values)
    rows = with_all_labels(parts[0] + parts[1], profile()).to_rows()
    found = evaluate(predictions, Y, profile(), ks=(3,), bootstrap=0)
    assert same(rows, [r for r in found if r.metric in metrics])


def test_rows_are_evaluated_in_blocks_without_changing_the_answer(monkeypatch):
    predictions, Y = slow.random_case(4, rows=50)
    whole = evaluate(predictions, Y, profile())
    monkeypatch.setattr("xmcspark.quality.metrics._BLOCK_ROWS", 7)
    monkeypatch.setattr("xmcspark.quality.row_resampling.RowResampling.MOST_ROWS", 3)
    assert same(evaluate(predictions, Y, profile()), whole)


def test_a_perfect_ranking_scores_one():
    _, Y = slow.random_case(5, relevance=False, empty_rows=False)
    weights = profile().weights
    perfect = Predictions.from_csr(
        Y.multiply(weights[None, :]).tocsr(), k=30
    )  # rarest labels first, as PSP wants
    found = by_key(evaluate(perfect, Y, profile(), ks=(1, 5, 30)))
    for k in (1, 5, 30):
        for metric in ("nDCG", "PSP", "PSnDCG"):
            assert found[metric, k, "all"].value == 1.0
    for metric in ("R", "wR", "coverage", "micro-F1"):
        assert found[metric, 30, "all"].value == 1.0
    assert found["P", 1, "all"].value == 1.0


def test_values_by_hand():
    predictions = Predictions(np.array([[2, 0, 1], [1, 3, -1]]), np.array([[3, 2, 1], [2, 1, -np.inf]]))
    Y = sp.csr_matrix(np.array([[4, 0, 1, 3], [0, 0, 0, 2]], np.float32))
    value = {(r.metric, r.k): r.value for r in evaluate(predictions, Y, ks=(1, 2))}
    assert value["P", 1] == 0.5
    assert value["P", 2] == 0.75
    assert value["R", 2] == pytest.approx((2 / 3 + 1) / 2)
    assert value["wR", 2] == pytest.approx((5 / 8 + 1) / 2)
    assert value["nDCG", 2] == pytest.approx((1 + (1 / math.log2(3)) / 1) / 2)
    assert value["coverage", 2] == 1.0
    assert value["coverage", 1] == pytest.approx(1 / 3)
    assert value["macro-F1", 2] == pytest.approx((1 + 0 + 1 + 2 * 1 / 3) / 4)
    assert value["micro-F1", 2] == pytest.approx(2 * 3 / 8)


def test_f1_agrees_with_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    predictions, Y = slow.random_case(6, rows=80)
    said = np.zeros(Y.shape, int)
    for i, labels in enumerate(predictions.top(3).labels):
        said[i, labels[labels >= 0]] = 1
    true = (Y.toarray() > 0).astype(int)
    for average, ours in (("macro", ranking.macro_f1_at_k), ("micro", ranking.micro_f1_at_k)):
        theirs = sklearn.f1_score(true, said, average=average, zero_division=0)
        assert ours(predictions, Y, 3) == pytest.approx(theirs, abs=1e-8)


def test_single_metric_functions_agree_with_evaluate():
    predictions, Y = slow.random_case(7)
    found = by_key(evaluate(predictions, Y, profile(), ks=(3,)))
    plain = {
        "P": ranking.precision_at_k,
        "R": ranking.recall_at_k,
        "nDCG": ranking.ndcg_at_k,
        "wR": ranking.weighted_recall_at_k,
        "coverage": ranking.coverage_at_k,
        "macro-F1": ranking.macro_f1_at_k,
        "micro-F1": ranking.micro_f1_at_k,
    }
    for metric, function in plain.items():
        assert function(predictions, Y, 3) == found[metric, 3, "all"].value
    assert ranking.psp_at_k(predictions, Y, profile(), 3) == found["PSP", 3, "all"].value
    assert ranking.psndcg_at_k(predictions, Y, profile(), 3) == found["PSnDCG", 3, "all"].value


def test_rows_without_true_labels_count_in_precision_but_not_in_recall():
    predictions = Predictions(np.array([[0], [0]]), np.ones((2, 1)))
    Y = sp.csr_matrix(np.array([[1, 0], [0, 0]], np.float32))
    found = {r.metric: r for r in evaluate(predictions, Y, ks=(1,))}
    assert (found["P"].value, found["P"].n) == (0.5, 2)
    assert (found["nDCG"].value, found["nDCG"].n) == (0.5, 2)
    assert (found["R"].value, found["R"].n) == (1.0, 1)
    assert (found["wR"].value, found["wR"].n) == (1.0, 1)


def test_k_beyond_the_predictions_and_the_labels_counts_misses():
    predictions = Predictions(np.array([[1]]), np.ones((1, 1)))
    Y = sp.csr_matrix(np.array([[0, 1]], np.float32))
    found = {r.metric: r.value for r in evaluate(predictions, Y, ks=(50,))}
    assert found["P"] == 1 / 50
    assert found["R"] == found["nDCG"] == 1.0


def test_stored_zeros_are_not_true_labels():
    Y = sp.csr_matrix((np.array([0.0, 1.0], np.float32), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    predictions = Predictions(np.array([[0]]), np.ones((1, 1)))
    assert ranking.precision_at_k(predictions, Y, 1) == 0.0
    assert ranking.coverage_at_k(predictions, Y, 1) == 0.0
    assert label_counts(Y).tolist() == [0, 1]


def test_what_cannot_be_averaged_is_nan_with_n_zero():
    nothing = Predictions(np.empty((0, 5), np.int32), np.empty((0, 5)))
    for row in evaluate(nothing, sp.csr_matrix((0, 30)), profile()):
        assert row.n == 0 or row.metric == "macro-F1"
        assert math.isnan(row.value) or row.metric == "macro-F1"
    unlabelled = by_key(evaluate(Predictions([[1]], [[1.0]]), sp.csr_matrix((1, 30)), profile(), ks=(1,)))
    assert unlabelled["P", 1, "all"].value == 0.0
    assert math.isnan(unlabelled["R", 1, "all"].value)
    assert math.isnan(unlabelled["PSP", 1, "all"].value)
    assert math.isnan(unlabelled["coverage", 1, "all"].value)


def test_no_predictions_at_all_score_zero():
    _, Y = slow.random_case(8)
    none = Predictions(np.empty((Y.shape[0], 0), np.int32), np.empty((Y.shape[0], 0)))
    assert all(row.value == 0.0 for row in evaluate(none, Y, profile()) if row.bin == "all")


def test_the_interval_of_a_mean_is_the_usual_one():
    predictions, Y = slow.random_case(9, rows=200)
    row = by_key(evaluate(predictions, Y, profile(), ks=(3,), bootstrap=0))["R", 3, "all"]
    values = [sum(j in ps[:3] for j in t) / len(t) for ps, t in slow.lists(predictions, Y) if t]
    half = 1.959964 * np.std(values) / math.sqrt(len(values))
    assert (row.low, row.high) == pytest.approx((row.value - half, row.value + half), abs=1e-7)


def test_the_interval_of_a_ratio_covers_what_resampling_gives():
    predictions, Y = slow.random_case(10, rows=400)
    row = by_key(evaluate(predictions, Y, profile(), ks=(5,), metrics=("PSP",), bootstrap=0))["PSP", 5, "all"]
    rng = np.random.default_rng(0)
    again = []
    for _ in range(200):
        some = rng.integers(0, 400, 400)
        drawn = Predictions(predictions.labels[some], predictions.scores[some])
        again.append(ranking.psp_at_k(drawn, Y[some], profile(), 5))
    assert row.high - row.low == pytest.approx(2 * 1.96 * np.std(again), rel=0.2)


def test_without_a_profile_there_are_no_bins_and_no_propensities():
    predictions, Y = slow.random_case(11)
    rows = evaluate(predictions, Y)
    assert {row.bin for row in rows} == {"all"}
    assert {row.metric for row in rows} == set(METRICS) - {"PSP", "PSnDCG"}


def test_only_the_metrics_asked_for_are_returned():
    predictions, Y = slow.random_case(12)
    rows = evaluate(predictions, Y, profile(), metrics=["coverage", "P"])
    assert {row.metric for row in rows} == {"coverage", "P"}


def good():
    return Predictions([[0, 1]], [[2.0, 1.0]]), sp.csr_matrix(np.eye(1, 30, dtype=np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Y": sp.csr_matrix((2, 30))}, "rows"),
        ({"Y": sp.csr_matrix((1, 29))}, "29 labels"),
        ({"Y": -sp.csr_matrix(np.eye(1, 30))}, "negative relevance"),
        ({"Y": sp.csr_matrix(np.full((1, 30), np.nan))}, "NaN"),
        ({"labels": [[0, 30]]}, "outside"),
        ({"labels": [[0, -2]]}, "outside"),
        ({"labels": [[0, 0]]}, "same label twice"),
        ({"labels": [[-1, 0]], "scores": [[-np.inf, 1]]}, "after padding"),
        ({"labels": [[0, -1]], "scores": [[1, 0]]}, "padding"),
        ({"scores": [[np.nan, 1]]}, "NaN"),
        ({"scores": [[1.0, 2.0]]}, "above the one before"),
        ({"ks": (0,)}, "ks"),
        ({"ks": ()}, "ks"),
        ({"ks": (5, 5)}, "ks"),
        ({"metrics": ("accuracy",)}, "accuracy"),
    ],
)
def test_bad_input_is_refused_with_a_reason(change, message):
    predictions, Y = good()
    labels = np.array(change.get("labels", predictions.labels), np.int32)
    predictions = Predictions(labels, change.get("scores", predictions.scores))
    profile_, ks, metrics = profile(), change.get("ks", (1,)), change.get("metrics")
    for function in (evaluate, partial_metrics):
        with pytest.raises(InputError, match=message):
            function(predictions, change.get("Y", Y), profile_, ks, metrics)


def test_propensity_metrics_without_a_profile_are_refused():
    predictions, Y = good()
    with pytest.raises(InputError, match="label profile"):
        evaluate(predictions, Y, metrics=("PSP",))


def test_parts_of_different_questions_cannot_be_added():
    predictions, Y = good()
    part = partial_metrics(predictions, Y, profile(), ks=(1,))
    with pytest.raises(InputError):
        part + partial_metrics(predictions, Y, profile(), ks=(2,))
    with pytest.raises(InputError):
        part + partial_metrics(predictions, Y, profile(), ks=(1,), metrics=("P",))
