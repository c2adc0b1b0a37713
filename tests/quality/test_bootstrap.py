"""Resampling: weights, percentiles, p-values, and that a replicate is the metric of the resampled rows."""

import math

import numpy as np
import pytest
import slow_reference as slow
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality import label_pairs
from xmcspark.quality.bootstrap import interval, p_value, poisson_weights
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import METRICS, evaluate, evaluated
from xmcspark.quality.settings import EvaluateSettings

COUNTS = np.array([150, 400, 101, 100, 60, 30, 12, 10, 9, 7] + [5] * 5 + [2] * 10 + [1] * 3 + [0] * 2)
PROFILE = LabelProfile.from_counts(COUNTS, 1000)
BINS = list(PROFILE.bin_names)
OVER_LABELS = ("coverage", "macro-F1")
OVER_ROWS = tuple(metric for metric in METRICS if metric not in OVER_LABELS)


def test_weights_are_poisson_with_mean_one():
    weights = poisson_weights(np.arange(20_000), 200)
    shares = np.bincount(weights.ravel(), minlength=8) / weights.size
    expected = [math.exp(-1) / math.factorial(n) for n in range(8)]
    assert shares[:8] == pytest.approx(expected, abs=5e-4)
    assert weights.mean() == pytest.approx(1, abs=2e-3)
    between_replicates = np.corrcoef(weights[:, :40].T)[np.triu_indices(40, 1)]
    assert np.abs(between_replicates).max() < 6 / math.sqrt(20_000)
    assert weights.sum(axis=0).std() == pytest.approx(math.sqrt(20_000), rel=0.2)  # rows are independent


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.integers(1, 50))
def test_the_weights_of_a_row_depend_on_its_key_alone(keys, count):
    keys = np.array(keys, np.int64)
    weights = poisson_weights(keys, 50)
    assert weights.dtype == np.uint8
    assert np.array_equal(poisson_weights(keys[::-1], count), weights[::-1, :count])


def test_weights_stay_what_they_are():
    """They are part of what makes two runs comparable: another release must draw alike."""
    assert poisson_weights(np.array([0, -1, 2**62]), 12).tolist() == [
        [0, 2, 1, 2, 0, 1, 4, 1, 2, 3, 0, 0],
        [0, 1, 2, 1, 1, 1, 0, 0, 0, 0, 1, 1],
        [2, 0, 0, 2, 2, 3, 0, 0, 0, 0, 0, 1],
    ]


def test_the_interval_of_999_replicates_is_between_the_25th_from_both_ends():
    values = np.random.default_rng(0).permutation(np.arange(1.0, 1000.0))
    assert interval(values) == (25.0, 975.0)
    assert interval(np.append(values, np.nan)) == (25.0, 975.0)
    assert all(map(math.isnan, interval(np.arange(38.0))))
    assert interval(np.arange(39.0)) == (0.0, 38.0)


@given(st.lists(st.floats(-1, 1, allow_nan=False), min_size=39, max_size=300))
def test_p_is_small_just_when_the_interval_leaves_zero_out(values):
    low, high = interval(np.array(values))
    assert (p_value(np.array(values)) <= 0.05) == (low > 0 or high < 0)


def test_p_of_no_difference_is_one():
    assert p_value(np.zeros(200)) == 1.0
    assert p_value(np.ones(199)) == 2 / 200
    assert math.isnan(p_value(np.full(3, np.nan)))


def drawn(predictions, Y, weights):
    rows = np.repeat(np.arange(len(weights)), weights)
    return Predictions(predictions.labels[rows], predictions.scores[rows]), Y[rows]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(1, 3, 5), (5, 2), (20,)]))
def test_a_replicate_is_the_metric_of_the_rows_it_drew(seed, ks):
    predictions, truth = slow.random_case(seed, rows=30)
    keys = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 30)
    rows, replicates = evaluated(predictions, truth, PROFILE, ks, OVER_ROWS, bootstrap=39, row_keys=keys)
    for at, weights in enumerate(poisson_weights(keys, 39).T):
        again = evaluate(*drawn(predictions, truth, weights), PROFILE, ks, OVER_ROWS, bootstrap=0)
        for row, expected in zip(rows, again, strict=True):
            found = replicates.of(row.metric, ks.index(row.k), BINS.index(row.bin))[at]
            assert found == pytest.approx(expected.value, abs=1e-12, nan_ok=True), (
                row.metric,
                row.k,
                row.bin,
            )


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(1, 3, 5), (5, 2), (20,)]))
def test_a_replicate_of_a_metric_over_labels_weighs_what_would_be_lost_without_each_row(seed, ks):
    predictions, truth = slow.random_case(seed, rows=15)
    keys = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 15)
    rows, replicates = evaluated(predictions, truth, PROFILE, ks, OVER_LABELS, bootstrap=39, row_keys=keys)
    x, y = sums_of(rows)
    weights = poisson_weights(keys, 39) - 1.0
    without = [
        sums_of(
            evaluate(*drawn(predictions, truth, np.arange(15) != row), PROFILE, ks, OVER_LABELS, bootstrap=0)
        )
        for row in range(15)
    ]
    x_of = x[:, None] + sum(np.outer(x - lost, weights[row]) for row, (lost, _) in enumerate(without))
    y_of = y[:, None] + sum(np.outer(y - lost, weights[row]) for row, (_, lost) in enumerate(without))
    for row, of_x, of_y in zip(rows, x_of, y_of, strict=True):
        found = replicates.of(row.metric, ks.index(row.k), BINS.index(row.bin))
        expected = np.where(of_y > 0, of_x / np.where(of_y > 0, of_y, 1), np.nan)
        assert found == pytest.approx(expected, abs=1e-6, nan_ok=True), (row.metric, row.k, row.bin)


def sums_of(rows):
    """x and y of coverage and macro-F1, whose ratio is the value: y is n in both."""
    n = np.array([row.n for row in rows], float)
    return np.nan_to_num([row.value for row in rows]) * n, n


def test_values_do_not_depend_on_the_bootstrap():
    predictions, truth = slow.random_case(1, rows=60)
    with_, without = (evaluate(predictions, truth, PROFILE, bootstrap=b) for b in (200, 0))
    for a, b in zip(with_, without, strict=True):
        assert repr((*a[:4], a.n)) == repr((*b[:4], b.n))


def test_pairs_are_weighed_in_pieces_without_changing_the_answer(monkeypatch):
    predictions, truth = slow.random_case(2, rows=60)
    whole = evaluate(predictions, truth, PROFILE, ks=(3, 1))
    for name, most in (("_MOST_ROWS", 7), ("_MOST_PAIRS", 5)):
        monkeypatch.setattr(label_pairs, name, most)
        assert repr(evaluate(predictions, truth, PROFILE, ks=(3, 1))) == repr(whole)


def test_every_metric_has_an_interval_around_its_value():
    predictions, truth = slow.random_case(3, rows=400)
    for row in evaluate(predictions, truth, PROFILE):
        if row.bin == "all":
            assert 0 <= row.low <= row.value <= row.high <= 1
            assert row.low < row.high
    assert {row.metric for row in evaluate(predictions, truth, PROFILE)} == set(METRICS)


def test_intervals_over_rows_are_those_of_the_normal_approximation_when_rows_are_many():
    predictions, truth = slow.random_case(4, rows=3000)
    found, normal = (evaluate(predictions, truth, PROFILE, ks=(1, 5), bootstrap=b) for b in (1000, 0))
    for a, b in zip(found, normal, strict=True):
        if a.bin == "all" and not math.isnan(b.low):
            assert a.high - a.low == pytest.approx(b.high - b.low, rel=0.12)
            assert (a.low + a.high) / 2 == pytest.approx(a.value, abs=0.1 * (a.high - a.low))


def test_intervals_hold_what_other_test_sets_give():
    """Those of coverage and macro-F1 as well, which resampling as such makes half as wide as they should be."""
    rng = np.random.default_rng(5)
    metrics = ("P", "coverage", "macro-F1", "micro-F1")
    sets = [evaluate(*skewed_case(rng), ks=(3,), metrics=metrics) for _ in range(60)]
    for same in zip(*sets, strict=True):
        mean = np.mean([row.value for row in same])
        held = np.mean([row.low <= mean <= row.high for row in same])
        assert held >= 0.88, (same[0].metric, held)
        deviation = np.std([row.value for row in same])
        assert np.mean([row.high - row.low for row in same]) < 1.6 * 3.92 * deviation, same[0].metric


def skewed_case(rng, rows=300, n_labels=400):
    """Labels from head to tail, the frequent ones predicted better."""
    popular = 1 / np.arange(1, n_labels + 1)
    labels = np.full((rows, 3), -1, np.int32)
    truth = np.zeros((rows, n_labels), np.float32)
    for i in range(rows):
        true = rng.choice(n_labels, 2, replace=False, p=popular / popular.sum())
        said = [j if rng.random() < 0.7 - 0.4 * j / n_labels else int(rng.integers(n_labels)) for j in true]
        said = list(dict.fromkeys([*said, int(rng.integers(n_labels))]))
        labels[i, : len(said)] = said
        truth[i, true] = 1
    scores = np.where(labels >= 0, -np.arange(3.0), -np.inf)
    return Predictions(labels, scores), truth


def test_one_row_or_none_has_no_interval():
    predictions, truth = slow.random_case(6, rows=1, empty_rows=False)
    for row in evaluate(predictions, truth, metrics=("P", "nDCG", "R")):
        assert row.value == row.value
        assert math.isnan(row.low)
        assert math.isnan(row.high)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": 20}, "39 replicates"),
        ({"row_keys": np.arange(3)}, "one per row"),
        ({"row_keys": np.ones(40)}, "whole numbers"),
    ],
)
def test_bad_resampling_is_refused_with_a_reason(change, message):
    predictions, truth = slow.random_case(7)
    with pytest.raises(InputError, match=message):
        evaluate(predictions, truth, **change)


def test_a_setting_with_too_few_replicates_is_refused():
    assert EvaluateSettings(bootstrap=0).bootstrap == 0
    with pytest.raises(ConfigError, match="39 and more"):
        EvaluateSettings(bootstrap=20)
