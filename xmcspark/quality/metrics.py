"""Evaluation of ranked predictions against true labels: every metric of the `metrics` table, over all
labels and by label-frequency bin. `partial_metrics` is what a partition computes and `finish_metrics`
what becomes of the added parts; `evaluate` is both, over all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.bootstrap import LEAST_REPLICATES, REPLICATES
from xmcspark.quality.label_pairs import PAIR, PAIR_METRICS, label_pairs, pair_deviations, with_sample
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_statistics import LabelCounts, label_counts_of, label_statistics, with_all_labels
from xmcspark.quality.metric_sums import LABEL_METRICS, ROW_METRICS, WEIGHTED_METRICS, MetricRow, MetricSums
from xmcspark.quality.replicates import Replicates
from xmcspark.quality.row_resampling import RowResampling
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
    replicates: Replicates  # of metrics that are sums over rows
    pairs: np.ndarray  # PAIR: what the replicates of the others are made of

    def __add__(self, other: PartialMetrics) -> PartialMetrics:
        if self.label_metrics != other.label_metrics:
            raise InputError("parts that were asked for different metrics cannot be added")
        return PartialMetrics(
            self.rows + other.rows,
            self.labels + other.labels,
            self.label_metrics,
            self.replicates + other.replicates,
            np.concatenate([self.pairs, other.pairs]),
        )


def evaluate(
    predictions: Predictions,
    Y_test: Any,
    profile: LabelProfile | None = None,
    ks: Sequence[int] = (1, 3, 5, 10),
    metrics: Iterable[str] | None = None,
    *,
    bootstrap: int = REPLICATES,
    row_keys: np.ndarray | None = None,
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

    The 95% intervals are percentiles over `bootstrap` replicates, in which rows are resampled (for coverage and
    macro-F1 see label_pairs); 0 takes the normal approximation. `row_keys`, int64 [rows], decide the draws, such as
    xxhash64 of ids; row numbers unless given.
    """
    return evaluated(predictions, Y_test, profile, ks, metrics, bootstrap=bootstrap, row_keys=row_keys)[0]


def evaluated(
    predictions: Predictions,
    Y_test: Any,
    profile: LabelProfile | None,
    ks: Sequence[int],
    metrics: Iterable[str] | None,
    *,
    bootstrap: int,
    row_keys: np.ndarray | None,
) -> tuple[list[MetricRow], Replicates]:
    """As `evaluate`, and the replicates of all metrics, by place of the k and of the bin."""
    Y = positives_of(Y_test)
    profile = profile or LabelProfile.plain(Y.shape[1])
    question = Question.checked(profile, ks, metrics, bootstrap)
    _check_together(predictions, Y, profile)
    return _finished(_added_parts(predictions, Y, profile, question, row_keys), profile)


@dataclass(frozen=True)
class Question:
    """What is asked of an evaluation."""

    ks: tuple[int, ...]
    metrics: tuple[str, ...]
    bootstrap: int  # replicates

    @staticmethod
    def checked(
        profile: LabelProfile, ks: Sequence[int], metrics: Iterable[str] | None, bootstrap: int
    ) -> Question:
        if bootstrap and bootstrap < LEAST_REPLICATES:
            raise InputError(
                f"bootstrap is {bootstrap}: 95% intervals need {LEAST_REPLICATES} replicates at least; 0 is without"
            )
        return Question(_checked_ks(ks), _checked_metrics(metrics, profile), bootstrap)

    def those_of(self, metrics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(metric for metric in self.metrics if metric in metrics)

    @property
    def resampled(self) -> tuple[str, ...]:
        """Metrics that are sums over rows, in a replicate as well."""
        return tuple(metric for metric in self.metrics if metric not in PAIR_METRICS)


def partial_metrics(
    predictions: Predictions,
    Y: Any,
    profile: LabelProfile,
    ks: Sequence[int] = (1, 3, 5, 10),
    metrics: Iterable[str] | None = None,
    *,
    bootstrap: int = REPLICATES,
    row_keys: np.ndarray | None = None,
) -> PartialMetrics:
    """The part of some rows; label ids in `predictions` and Y are places in `profile` (see its `take`)."""
    positives = positives_of(Y)
    _check_together(predictions, positives, profile)
    question = Question.checked(profile, ks, metrics, bootstrap)
    return _added_parts(predictions, positives, profile, question, row_keys)


def _added_parts(
    predictions: Predictions, Y: Csr, profile: LabelProfile, question: Question, row_keys: np.ndarray | None
) -> PartialMetrics:
    """The parts of all blocks of rows."""
    keys = np.arange(Y.shape[0]) if row_keys is None else row_keys
    if keys.shape != (Y.shape[0],) or keys.dtype.kind != "i":
        raise InputError(
            f"row_keys {keys.dtype} {keys.shape} must be whole numbers, one per row ({Y.shape[0]})"
        )
    blocks = range(0, max(Y.shape[0], 1), _BLOCK_ROWS)
    parts = (
        _part(predictions.slice_rows(a, b), _slice(Y, a, b), profile, question, keys[a:b])
        for a, b in ((start, min(start + _BLOCK_ROWS, Y.shape[0])) for start in blocks)
    )
    total = next(parts)
    for part in parts:
        total += part
    return total


def _part(
    predictions: Predictions, Y: Csr, profile: LabelProfile, question: Question, row_keys: np.ndarray
) -> PartialMetrics:
    ks, best = question.ks, predictions.top(max(question.ks))
    truth = Truth.of(best, Y)
    counts = label_counts_of(predictions, truth, profile, ks)
    label_metrics = question.those_of(LABEL_METRICS)
    if not question.bootstrap:
        rows = row_statistics(truth, profile, ks, question.those_of(ROW_METRICS))
        return PartialMetrics(
            rows, counts, label_metrics, _no_replicates(profile, question), np.empty(0, PAIR)
        )
    rows, replicates = _resampled(best, truth, profile, question, row_keys)
    pairs = np.empty(0, PAIR)
    if question.those_of(PAIR_METRICS):
        pairs = label_pairs(best, truth, profile, ks, row_keys)
    return PartialMetrics(rows, counts, label_metrics, replicates, pairs)


def _resampled(
    predictions: Predictions, truth: Truth, profile: LabelProfile, question: Question, row_keys: np.ndarray
) -> tuple[MetricSums, Replicates]:
    """The sums over rows and their replicates, in blocks as large as a matrix of weights may be."""
    ks, metrics = question.ks, question.those_of(ROW_METRICS)
    sums, replicates = MetricSums.zero(metrics, ks, profile.bin_names), _no_replicates(profile, question)
    for start in range(0, truth.n_rows, RowResampling.MOST_ROWS):
        stop = min(start + RowResampling.MOST_ROWS, truth.n_rows)
        some, keys = predictions.slice_rows(start, stop), row_keys[start:stop]
        resampling = RowResampling(
            question.resampled, len(ks), len(profile.bin_names), some, keys, question.bootstrap
        )
        sums += row_statistics(truth.between(start, stop), profile, ks, metrics, resampling)
        replicates += resampling.replicates()
    return sums, replicates


def _no_replicates(profile: LabelProfile, question: Question) -> Replicates:
    n_bins = len(profile.bin_names)
    return Replicates.zero(question.resampled, len(question.ks), n_bins, question.bootstrap)


def finish_metrics(total: PartialMetrics, profile: LabelProfile) -> list[MetricRow]:
    """The metrics of the added parts of all partitions."""
    return _finished(total, profile)[0]


def _finished(total: PartialMetrics, profile: LabelProfile) -> tuple[list[MetricRow], Replicates]:
    sums = label_statistics(total.labels, profile, total.rows.ks, total.label_metrics)
    labels = with_all_labels(sums, profile)
    deviations = pair_deviations(total.pairs, profile, total.rows.ks, total.replicates.count)
    replicates = total.replicates.and_of(with_sample(deviations, labels))
    return total.rows.to_rows(replicates) + labels.to_rows(replicates), replicates


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
