"""Platt calibration: recovers a known curve, matches a general optimiser, is monotone and order-free."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from xmcspark.errors import InputError
from xmcspark.matchers.calibration import Platt, fit_platt, fit_platt_on_predictions
from xmcspark.matchers.portable_math import exact_exp, exact_log
from xmcspark.matchers.predictions import Predictions


def sample(slope, intercept, n, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.3, 1.0, n) * scale
    return scores, rng.random(n) < 1 / (1 + np.exp(-(slope * scores + intercept)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_recovers_a_known_sigmoid(scale):
    scores, hits = sample(1.7 / scale, -0.8, 200_000, scale=scale)
    fit = fit_platt(scores, hits)
    assert fit.slope * scale == pytest.approx(1.7, abs=0.05)
    assert fit.intercept == pytest.approx(-0.8, abs=0.05)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(5, 60))
def test_is_the_optimum_of_the_smoothed_log_loss(seed, n):
    scores, hits = sample(1.0, 0.2, n, seed)
    positive, negative = hits.sum(), n - hits.sum()
    targets = np.where(hits, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(parameters):
        z = parameters[0] * scores + parameters[1]
        return (np.logaddexp(0, z) - targets * z).sum()

    best = minimize(loss, [0.0, 0.0], bounds=[(0, None), (None, None)], tol=1e-12)
    fit = fit_platt(scores, hits)
    assert loss([fit.slope, fit.intercept]) <= best.fun + 1e-6 * n


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_pairs_does_not_change_a_bit(seed):
    scores, hits = sample(2.0, -1.0, 1000, seed)
    order = np.random.default_rng(seed).permutation(1000)
    assert fit_platt(scores, hits) == fit_platt(scores[order], hits[order])


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=50), st.floats(0, 1e3), st.floats(-50, 50)
)
def test_higher_scores_never_get_lower_probabilities(scores, slope, intercept):
    probabilities = Platt(slope, intercept).probabilities(np.sort(scores))
    assert (np.diff(probabilities) >= 0).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


def test_separable_pairs_stay_finite():
    fit = fit_platt([0.0, 0.1, 0.9, 1.0], [0, 0, 1, 1])
    low, high = fit.probabilities([0.0, 1.0])
    assert low < 0.3 < 0.7 < high


@pytest.mark.parametrize("hit", [0, 1])
def test_pairs_of_one_kind_give_the_smoothed_base_rate(hit):
    probabilities = fit_platt(np.linspace(0, 1, 8), np.full(8, hit)).probabilities([0.0, 0.5, 1.0])
    np.testing.assert_allclose(probabilities, 0.9 if hit else 0.1, atol=1e-5)


def test_equal_scores_give_the_smoothed_base_rate():
    fit = fit_platt(np.full(10, 3.0), np.arange(10) < 4)
    target = (4 * (5 / 6) + 6 * (1 / 8)) / 10
    assert fit.probabilities([3.0])[0] == pytest.approx(target, abs=1e-6)


def test_scores_that_are_hit_less_the_higher_they_are_give_a_flat_curve_and_a_warning(caplog):
    scores, hits = sample(-2.0, 0.0, 1000)
    with caplog.at_level(logging.WARNING):
        fit = fit_platt(scores, hits)
    assert fit.slope == 0.0
    assert fit.probabilities([0.0, np.inf]).tolist() == [pytest.approx(hits.mean(), abs=0.01)] * 2
    assert "base rate" in caplog.text


def test_predictions_keep_their_ranking_and_padding():
    predictions = Predictions([[4, 2, 9], [1, -1, -1]], [[8.0, 2.0, -1.0], [0.5, -np.inf, -np.inf]])
    Y = sp.csr_matrix(([1.0, 1.0, 0.0], ([0, 1, 0], [4, 3, 9])), shape=(2, 10))
    fit = fit_platt_on_predictions(predictions, Y)
    assert fit == fit_platt([8.0, 2.0, -1.0, 0.5], [1, 0, 0, 0])
    calibrated = fit.apply(predictions).check(10)
    np.testing.assert_array_equal(calibrated.labels, predictions.labels)
    np.testing.assert_array_equal(calibrated.scores[0], fit.probabilities(predictions.scores[0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_platt([], []), "no pairs"),
        (lambda: fit_platt([1.0], [1, 0]), "equally long"),
        (lambda: fit_platt([np.nan], [1]), "NaN"),
        (lambda: fit_platt([1.0], [0.5]), "true or false"),
        (lambda: Platt(-1.0, 0.0), "not negative"),
        (lambda: Platt(1.0, np.nan), "finite"),
        (lambda: Platt(1.0, 0.0).probabilities([np.nan]), "NaN"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make, message):
    with pytest.raises(InputError, match=message):
        make()


@given(st.lists(st.floats(-700, 700), min_size=1))
def test_portable_exp_is_exp(values):
    np.testing.assert_allclose(exact_exp(np.array(values)), np.exp(values), rtol=2e-15)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_portable_log_is_log(values):
    np.testing.assert_allclose(exact_log(np.array(values)), np.log(values), rtol=2e-15, atol=2e-16)


def test_portable_exp_far_out():
    assert exact_exp(np.array([-np.inf, -1e9, 0.0])).tolist() == [0.0, 0.0, 1.0]
    assert np.isfinite(exact_exp(np.array([1e9, np.inf]))).all()
