"""Two predictions of the same rows: differences, paired intervals, p-values, and what is printed."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import slow_reference as slow

from xmcspark import compare
from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.comparison import comparison_text
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import METRICS, evaluate

ROWS, N_LABELS = 500, 50
PROFILE = LabelProfile.from_counts(np.arange(N_LABELS), 100)


def problem(seed=0, better=0.0):
    """Predictions with the true label first in 40% of the rows, others in 40% + `better` of them, and the truth."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, N_LABELS, ROWS)
    luck = rng.random(ROWS)

    def said(share):
        first = np.where(luck < share, true, (true + 1) % N_LABELS)
        return Predictions(np.stack([first, (first + 7) % N_LABELS], axis=1), np.tile([1.0, 0.5], (ROWS, 1)))

    Y = sp.csr_matrix((np.ones(ROWS, np.float32), (np.arange(ROWS), true)), shape=(ROWS, N_LABELS))
    return said(0.4 + better), said(0.4), Y


def test_a_row_has_the_values_of_both_and_their_difference():
    one, other, Y = problem(better=0.05)
    rows = compare(one, other, Y, PROFILE, bootstrap=100)
    values = [[row.value for row in evaluate(some, Y, PROFILE)] for some in (one, other)]
    assert [row.value for row in rows] == pytest.approx(values[0], nan_ok=True)
    assert [row.other for row in rows] == pytest.approx(values[1], nan_ok=True)
    assert {row.metric for row in rows} == set(METRICS)
    for row in rows:
        assert row.difference == pytest.approx(row.value - row.other, nan_ok=True)
        assert row.n == 0 or math.isnan(row.value) or row.low <= row.difference <= row.high


def test_no_difference_is_no_difference():
    one, _, Y = problem()
    for row in compare(one, one, Y, PROFILE, bootstrap=100):
        if row.n > 1:
            assert (row.difference, row.low, row.high, row.p) == (0, 0, 0, 1)


def test_a_paired_test_sees_what_two_intervals_do_not():
    one, other, Y = problem(better=0.05)
    row = compare(one, other, Y, ks=(1,), metrics=("P",))[0]
    ours, theirs = (evaluate(some, Y, ks=(1,), metrics=("P",))[0] for some in (one, other))
    assert ours.low < theirs.high
    assert row.p < 0.01
    assert row.low > 0


def test_chance_is_found_significant_about_as_often_as_promised():
    significant = 0
    for seed in range(100):
        (_, one, Y), rng = problem(seed), np.random.default_rng(seed + 1000)
        flip = rng.random(ROWS) < 0.3  # right or wrong by another toss of the same coin
        again = np.where(rng.random(ROWS) < 0.4, Y.indices, (Y.indices + 1) % N_LABELS)
        labels = one.labels.copy()
        labels[flip, 0], labels[flip, 1] = again[flip], (again[flip] + 7) % N_LABELS
        row = compare(one, Predictions(labels, one.scores), Y, ks=(1,), metrics=("P",), bootstrap=199)[0]
        significant += row.p <= 0.05
    assert 0 <= significant <= 13  # 5 expected; above 13 once in two thousand


def test_turned_round_the_difference_changes_its_sign_only():
    one, other, Y = problem(better=0.02)
    for a, b in zip(
        compare(one, other, Y, bootstrap=199), compare(other, one, Y, bootstrap=199), strict=True
    ):
        assert (a.difference, a.low, a.high) == pytest.approx((-b.difference, -b.high, -b.low), abs=1e-12)
        assert a.p == b.p


def test_the_text_has_a_line_for_each_metric_over_all_labels_with_stars():
    one, other, Y = problem(better=0.05)
    rows = compare(one, other, Y, PROFILE, ks=(1, 2), metrics=("P", "R"), bootstrap=199)
    lines = comparison_text(rows, "new", "old").splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["P@1", "P@2", "R@1", "R@2"]
    assert lines[1].endswith("*")
    assert f"{100 * rows[0].value:.2f}" in lines[1]
    assert "run new, other old" in lines[-1]
    nothing = compare(
        one.slice_rows(0, 0), one.slice_rows(0, 0), Y[:0], bootstrap=50, metrics=("R",), ks=(1,)
    )
    assert comparison_text(nothing, "a", "b").splitlines()[1].split() == ["R@1", "-", "-"]


def test_a_comparison_needs_replicates():
    one, other, Y = problem()
    with pytest.raises(InputError, match="39 replicates"):
        compare(one, other, Y, bootstrap=0)


def test_rows_without_labels_are_no_trouble():
    predictions, Y = slow.random_case(0)
    shifted = Predictions(
        np.where(predictions.labels >= 0, (predictions.labels + 1) % 30, -1), predictions.scores
    )
    assert len(compare(predictions, shifted, Y, bootstrap=50)) == 7 * 4
