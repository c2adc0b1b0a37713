"""Evaluation of ranked predictions against true labels: every metric of the `metrics` table, over all
labels and by label-frequency bin. `partial_metrics` is what a partition computes and `finish_metrics`
what becomes of the added parts; `evaluate` is both in a loop over blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_statistics import LabelCounts, label_counts_of, label_statistics, with_all_labels
from xmcspark.quality.metric_sums import LABEL_METRICS, ROW_METRICS, WEIGHTED_METRICS, MetricRow, MetricSums
from xmcspark.quality.row_statistics import Truth, row_statistics
from xmcspark.sparse.csr import Csr, as_csr

METRICS = ROW_METRICS + LABEL_METRICS
_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class PartialMetrics:
    """What one partition of rows contributes; `+` in any order and grouping gives the same."""

    rows: MetricSums
    labels: LabelCounts
    label_metrics: tuple[str, ...]  # what to make of `labels`

    def __add__(self, other: PartialMetrics) -> PartialMetrics:
        if self.label_metrics != other.label_metrics:
            raise InputError("parts that were asked for different metrics cannot be added")
        return PartialMetrics(self.rows + other.rows, self.labels + other.labels, self.label_metrics)


def evaluate(
    predictions: Predictions,
    Y_test: Any,
    profile: LabelProfile | None = None,
    ks: Sequence[int] = (1, 3, 5, 10),
    metrics: Iterable[str] | None = None,
) -> list[MetricRow]:
    """Every metric at every k, over all labels and per bin of `profile`.

    Y_test [rows, labels]: values above 0 are true labels, and are their relevance (clicks, purchases) for wR.
    Without a profile there are no bins and no PSP or PSnDCG.

    P, nDCG, PSP, PSnDCG of a bin are its part of the whole: bins of a division add up to `all`.
    R, wR, coverage and F1 of a bin look at its labels alone.
    Rows without true labels count as 0 in P and nDCG, add nothing to PSP and PSnDCG (all as in pyxclib) and
    are left out of R and wR. A k beyond the number of predictions, or of labels, counts the missing places
    as misses.
    Coverage is distinct true labels hit over distinct true labels; macro-F1 is the mean over all labels.
    """
    Y = positives_of(Y_test)
    profile = profile or LabelProfile.plain(Y.shape[1])
    ks, chosen = _checked_ks(ks), _checked_metrics(metrics, profile)
    _check_together(predictions, Y, profile)
    total = _part(predictions.slice_rows(0, 0), _slice(Y, 0, 0), profile, ks, chosen)
    for start in range(0, Y.shape[0], _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, Y.shape[0])
        total += _part(predictions.slice_rows(start, stop), _slice(Y, start, stop), profile, ks, chosen)
    return finish_metrics(total, profile)


def partial_metrics(
    predictions: Predictions,
    Y: Any,
    profile: LabelProfile,
    ks: Sequence[int] = (1, 3, 5, 10),
    metrics: Iterable[str] | None = None,
) -> PartialMetrics:
    """The part of some rows; label ids in `predictions` and Y are places in `profile` (see its `take`)."""
    positives = positives_of(Y)
    _check_together(predictions, positives, profile)
    return _part(predictions, positives, profile, _checked_ks(ks), _checked_metrics(metrics, profile))


def _part(
    predictions: Predictions, Y: Csr, profile: LabelProfile, ks: tuple[int, ...], metrics: tuple[str, ...]
) -> PartialMetrics:
    truth = Truth.of(predictions.top(max(ks)), Y)
    row_metrics = tuple(metric for metric in metrics if metric in ROW_METRICS)
    label_metrics = tuple(metric for metric in metrics if metric in LABEL_METRICS)
    counts = label_counts_of(predictions, truth, profile, ks)
    return PartialMetrics(row_statistics(truth, profile, ks, row_metrics), counts, label_metrics)


def finish_metrics(total: PartialMetrics, profile: LabelProfile) -> list[MetricRow]:
    """The metrics of the added parts of all partitions."""
    sums = label_statistics(total.labels, profile, total.rows.ks, total.label_metrics)
    return total.rows.to_rows() + with_all_labels(sums, profile).to_rows()


def positives_of(Y: Any) -> Csr:
    """True labels and their relevance, without stored zeros."""
    matrix = as_csr(Y, "Y_test")
    if (matrix.data < 0).any():
        row = np.searchsorted(matrix.indptr, np.flatnonzero(matrix.data < 0)[0], side="right") - 1
        raise InputError(f"Y_test, row {row}: a negative relevance; true labels have values above 0")
    kept = matrix.data > 0
    if kept.all():
        return matrix
    indptr = np.concatenate(([0], np.cumsum(kept)))[matrix.indptr]
    return Csr(indptr.astype(np.int64), matrix.indices[kept], matrix.data[kept], matrix.shape)


def _check_together(predictions: Predictions, Y: Csr, profile: LabelProfile) -> None:
    if predictions.rows != Y.shape[0]:
        raise InputError(f"predictions have {predictions.rows} rows, Y_test {Y.shape[0]}: they must agree")
    if Y.shape[1] != profile.n_labels:
        raise InputError(
            f"Y_test has {Y.shape[1]} labels, the label profile {profile.n_labels}: they must agree"
        )
    predictions.check(Y.shape[1])


def _slice(Y: Csr, start: int, stop: int) -> Csr:
    first, last = Y.indptr[start], Y.indptr[stop]
    indptr = Y.indptr[start : stop + 1] - first
    return Csr(indptr, Y.indices[first:last], Y.data[first:last], (stop - start, Y.shape[1]))


def _checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    result = tuple(int(k) for k in ks)
    if not result or min(result) < 1 or max(result) >= 1 << 15 or len(set(result)) != len(result):
        raise InputError(f"ks is {tuple(ks)}; distinct whole numbers from 1 to 32767 are needed")
    return result


def _checked_metrics(metrics: Iterable[str] | None, profile: LabelProfile) -> tuple[str, ...]:
    possible = tuple(m for m in METRICS if profile.weights is not None or m not in WEIGHTED_METRICS)
    if metrics is None:
        return possible
    wanted = set(metrics)
    if not wanted <= set(METRICS):
        raise InputError(f"metrics {sorted(wanted - set(METRICS))} are unknown; known are {METRICS}")
    if not wanted <= set(possible):
        raise InputError(f"{sorted(wanted - set(possible))} need training frequencies: give a label profile")
    return tuple(metric for metric in possible if metric in wanted)
