"""Platt calibration: turns scores into probabilities by 1 / (1 + exp(-(slope * score + intercept))),
fitted on pairs of score and hit. Never reverses a ranking, has two numbers to save, and gives the same
fit for the pairs in any order."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.portable_math import exact_exp, exact_log
from xmcspark.matchers.predictions import Predictions
from xmcspark.sparse.csr import as_csr

_log = logging.getLogger(__name__)

_MAX_STEPS = 100
_RIDGE = 1e-12  # keeps the Hessian invertible when all scores are equal
_BLOCK = 1 << 15  # pairs looked at together: they stay in cache


@dataclass(frozen=True)
class Platt:
    """A fitted calibration; `slope` is never negative."""

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.slope) and np.isfinite(self.intercept) and self.slope >= 0):
            raise InputError(
                f"calibration: slope {self.slope} and intercept {self.intercept} must be finite, the slope "
                "not negative; fit it again"
            )

    def probabilities(self, scores: Any) -> np.ndarray:
        """float32 probabilities of an array of scores, of the same shape."""
        scores = np.asarray(scores, np.float64)
        if np.isnan(scores).any():
            raise InputError("calibration: a score is NaN")
        with np.errstate(invalid="ignore"):  # 0 * inf: a flat calibration gives every score the same
            z = np.where(self.slope == 0, self.intercept, self.slope * scores + self.intercept)
        return (1.0 / (1.0 + exact_exp(-z))).astype(np.float32)

    def apply(self, predictions: Predictions) -> Predictions:
        """The same ranking with probabilities for scores."""
        probabilities = self.probabilities(np.where(predictions.labels >= 0, predictions.scores, 0.0))
        # Rounding may not lift a score above the one before it.
        probabilities = np.minimum.accumulate(probabilities, axis=1)
        return Predictions(
            predictions.labels, np.where(predictions.labels >= 0, probabilities, np.float32(-np.inf))
        )


def fit_platt(scores: Any, hits: Any) -> Platt:
    """The calibration of most likelihood for `hits` (true or false) given their scores.

    Newton's method with backtracking on Platt's smoothed targets (Lin, Lin and Weng 2007). Where higher
    scores are hit less often, no rising curve fits: the slope is 0 and the base rate is returned, with a
    warning in the log.
    """
    rising_scores, rising_hits = _sorted_pairs(scores, hits)
    n_hits = int(rising_hits.sum())
    n_misses = len(rising_hits) - n_hits
    target_hit, target_miss = (n_hits + 1.0) / (n_hits + 2.0), 1.0 / (n_misses + 2.0)
    targets = np.where(rising_hits, target_hit, target_miss)
    # Standardised scores keep Newton's steps well scaled whatever the unit of the scores.
    centre, unit = _centre_and_unit(rising_scores)
    slope, intercept = _newton((rising_scores - centre) / unit, targets)
    slope /= unit
    if slope < 0:
        _log.warning("calibration: higher scores are hit less often (slope %g); using the base rate", slope)
        base = float(targets.sum()) / len(targets)
        return Platt(0.0, float(exact_log(np.array([base / (1.0 - base)]))[0]))
    return Platt(slope, intercept - slope * centre)


def fit_platt_on_predictions(predictions: Predictions, Y: Any) -> Platt:
    """Calibration on every predicted (score, is it a true label) pair of held-out rows with true labels Y."""
    predictions.check()
    truth = as_csr(Y, "Y", rows=predictions.rows)
    positions = predictions.positions_of(truth)
    hit = (positions >= 0) & (truth.data > 0)
    hits = np.zeros(predictions.labels.shape, bool)
    hits[np.repeat(np.arange(predictions.rows), np.diff(truth.indptr))[hit], positions[hit]] = True
    present = predictions.labels >= 0
    return fit_platt(predictions.scores[present], hits[present])


def _sorted_pairs(scores: Any, hits: Any) -> tuple[np.ndarray, np.ndarray]:
    """The pairs, checked, in an order of their own: float sums then do not depend on the given one."""
    scores, hits = np.asarray(scores, np.float64), np.asarray(hits)
    if scores.ndim != 1 or scores.shape != hits.shape:
        raise InputError(
            f"calibration: scores {scores.shape} and hits {hits.shape} must be equally long vectors"
        )
    if not len(scores):
        raise InputError("calibration: no pairs of score and hit; give held-out predictions")
    if not np.isfinite(scores).all():
        raise InputError("calibration: a score is NaN or infinite")
    if hits.dtype != np.bool_ and not np.isin(hits, (0, 1)).all():
        raise InputError("calibration: hits must be true or false (0 or 1)")
    hits = hits.astype(bool)
    pairs = np.concatenate((np.sort(scores[hits]), np.sort(scores[~hits])))
    return pairs, np.arange(len(scores)) < np.count_nonzero(hits)


def _centre_and_unit(scores: np.ndarray) -> tuple[float, float]:
    largest = float(np.abs(scores).max()) or 1.0  # first to 1, so that squares cannot overflow
    centre = float((scores / largest).sum()) / len(scores)
    variance = float(np.square(scores / largest - centre).sum()) / len(scores)
    unit = largest * variance**0.5
    return centre * largest, unit if unit > 1e-9 * largest else largest


def _newton(x: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of least log loss."""
    n = len(x)
    mean = float(targets.sum()) / n
    slope, intercept = 0.0, float(exact_log(np.array([mean / (1.0 - mean)]))[0])
    loss = _loss(x, targets, slope, intercept)
    for _ in range(_MAX_STEPS):
        g1, g0, h11, h10, h00 = _derivatives(x, targets, slope, intercept)
        if max(abs(g1), abs(g0)) < 1e-10 * n:
            break
        h11, h00 = h11 + _RIDGE * n, h00 + _RIDGE * n
        determinant = h11 * h00 - h10 * h10
        step1, step0 = -(h00 * g1 - h10 * g0) / determinant, -(h11 * g0 - h10 * g1) / determinant
        decrease = g1 * step1 + g0 * step0
        size = 1.0
        while size > 1e-10:
            trial = _loss(x, targets, slope + size * step1, intercept + size * step0)
            if trial < loss + 1e-4 * size * decrease:
                break
            size /= 2.0
        else:
            break  # no step improves on this: rounding is all that is left
        slope, intercept, loss = slope + size * step1, intercept + size * step0, trial
    return slope, intercept


def _loss(x: np.ndarray, targets: np.ndarray, slope: float, intercept: float) -> float:
    total = 0.0
    for start in range(0, len(x), _BLOCK):
        z = slope * x[start : start + _BLOCK] + intercept
        softplus = np.maximum(z, 0.0) + exact_log(1.0 + exact_exp(-np.abs(z)))
        total += float((softplus - targets[start : start + _BLOCK] * z).sum())
    return total


def _derivatives(x: np.ndarray, targets: np.ndarray, slope: float, intercept: float) -> tuple[float, ...]:
    """Gradient (slope, intercept) and Hessian (slope², slope·intercept, intercept²) of the loss."""
    totals = np.zeros(5)
    for start in range(0, len(x), _BLOCK):
        part = x[start : start + _BLOCK]
        p = 1.0 / (1.0 + exact_exp(-(slope * part + intercept)))
        error = p - targets[start : start + _BLOCK]
        curve = p * (1.0 - p)
        curved = curve * part
        totals += [(error * part).sum(), error.sum(), (curved * part).sum(), curved.sum(), curve.sum()]
    return tuple(float(total) for total in totals)
