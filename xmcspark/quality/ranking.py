"""One function per metric, for use on arrays by hand: the value over all labels at one k. The definitions
are those of `metrics.evaluate`, which computes many at once and by bin."""

from __future__ import annotations

from typing import Any

from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate


def precision_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """Hits among the first k over k, mean over rows."""
    return _value("P", predictions, Y_test, k)


def recall_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """Share of a row's true labels among the first k, mean over rows that have any."""
    return _value("R", predictions, Y_test, k)


def weighted_recall_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """Share of the relevance of a row's true labels found among the first k (paper 2), mean as in recall."""
    return _value("wR", predictions, Y_test, k)


def ndcg_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """Hits discounted by 1 / log2(rank + 1) over those of a perfect ranking, mean over rows."""
    return _value("nDCG", predictions, Y_test, k)


def psp_at_k(predictions: Predictions, Y_test: Any, profile: LabelProfile, k: int) -> float:
    """Propensity-scored precision over the best attainable."""
    return _value("PSP", predictions, Y_test, k, profile)


def psndcg_at_k(predictions: Predictions, Y_test: Any, profile: LabelProfile, k: int) -> float:
    """Propensity-scored nDCG over the best attainable."""
    return _value("PSnDCG", predictions, Y_test, k, profile)


def coverage_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """Distinct true labels found in some row over distinct true labels."""
    return _value("coverage", predictions, Y_test, k)


def macro_f1_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """F1 of each label's first-k predictions, mean over all labels (0 for one never true nor predicted)."""
    return _value("macro-F1", predictions, Y_test, k)


def micro_f1_at_k(predictions: Predictions, Y_test: Any, k: int) -> float:
    """F1 of all first-k predictions together."""
    return _value("micro-F1", predictions, Y_test, k)


def _value(
    metric: str, predictions: Predictions, Y_test: Any, k: int, profile: LabelProfile | None = None
) -> float:
    rows = evaluate(predictions, Y_test, profile, ks=(k,), metrics=(metric,), bootstrap=0)
    return next(row.value for row in rows if row.bin == "all" and row.metric == metric)
