"""Metrics that average over rows: P, R, nDCG, PSP, PSnDCG and weighted recall. Computes, for the rows of
one partition, the integers that `MetricSums` adds up, and those that the bootstrap weighs anew in each replicate.
Only (row, bin) cells that hold a hit are touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xmcspark.matchers.portable_math import exact_log
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_bins import LabelBins
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_sums import GRID, XX, XY, YY, MetricSums, N, X, Y, on_grid
from xmcspark.quality.row_resampling import RowResampling
from xmcspark.sparse.csr import Csr


@dataclass(frozen=True)
class Truth:
    """The true labels of some rows, entry by entry, with their place in the predictions."""

    n_rows: int
    row: np.ndarray  # int64 [positives], not falling
    label: np.ndarray  # int32 [positives]
    relevance: np.ndarray  # float64 [positives]
    position: np.ndarray  # int32 [positives]; -1 if not predicted

    @staticmethod
    def of(predictions: Predictions, positives: Csr) -> Truth:
        row = np.repeat(np.arange(positives.shape[0]), np.diff(positives.indptr))
        position = predictions.positions_of(positives)
        return Truth(positives.shape[0], row, positives.indices, positives.data.astype(np.float64), position)

    def between(self, start: int, stop: int) -> Truth:
        """Of some rows, which are numbered from 0 again."""
        first, last = np.searchsorted(self.row, (start, stop))
        some = slice(first, last)
        return Truth(
            stop - start,
            self.row[some] - start,
            self.label[some],
            self.relevance[some],
            self.position[some],
        )

    def hits(self) -> np.ndarray:
        """The entries that were predicted, by place: those among the first k are a prefix, for every k."""
        found = np.flatnonzero(self.position >= 0)
        result: np.ndarray = found[np.argsort(self.position[found].astype(np.int16), kind="stable")]
        return result


def row_statistics(
    truth: Truth,
    profile: LabelProfile,
    ks: tuple[int, ...],
    metrics: tuple[str, ...],
    resampling: RowResampling | None = None,
) -> MetricSums:
    """The sums of `metrics` (of ROW_METRICS) over the rows of `truth`; what they are made of goes to `resampling`."""
    result = MetricSums.zero(metrics, ks, profile.bin_names)
    rows = _Rows(truth, profile, max(ks))
    hits = truth.hits()
    offset = 0
    for division in profile.divisions:
        cells = _Cells(truth, hits, division)
        bins = slice(offset, offset + len(division.names))
        for j, k in enumerate(ks):
            for metric, out in zip(metrics, result.values[:, j, bins], strict=True):
                x = _FILL[metric](out, cells, rows, k)
                if resampling is not None:
                    resampling.put_x(metric, j, bins, cells.cell, x)
        if resampling is not None:
            _put_totals(resampling, metrics, cells, rows, bins, ks)
        offset = bins.stop
    return result


def _put_totals(
    resampling: RowResampling,
    metrics: tuple[str, ...],
    cells: _Cells,
    rows: _Rows,
    bins: slice,
    ks: tuple[int, ...],
) -> None:
    """y of each row: that of a bin, or, for metrics whose bins all have the same, once for all."""
    for metric in metrics:
        if metric in _OWN_TOTALS:
            resampling.put_bins_y(metric, bins, (_OWN_TOTALS[metric](cells) > 0) * GRID)
        elif bins.start == 0:
            for j, k in enumerate(ks):
                resampling.put_y(metric, j, _ROW_TOTALS[metric](rows, k))
    if "micro-F1" in resampling.metrics:
        for j, k in enumerate(ks):
            resampling.put_x("micro-F1", j, bins, cells.cell, 2 * cells.gather(k))
            predicted = resampling.predicted(cells.division, k)
            resampling.put_y("micro-F1", j, cells.positives + predicted, bins)


class _Rows:
    """Per row, what does not depend on bins: ideal gains by k."""

    def __init__(self, truth: Truth, profile: LabelProfile, max_k: int):
        self.n = truth.n_rows
        self.positives = np.bincount(truth.row, minlength=self.n)
        self.discount = 0.693147180559945286227 / exact_log(np.arange(2.0, max_k + 2.0))  # 1 / log2(rank + 1)
        self._ideal = np.concatenate(([1.0], np.cumsum(self.discount)))  # 1: a row without labels has no gain
        self._best: dict[tuple[int, bool], np.ndarray] = {}
        self.weight = profile.weights
        if self.weight is not None:
            self._best_rows, self._best_ranks, self._best_weights = self._order_by_weight(truth, max_k)

    def _order_by_weight(self, truth: Truth, max_k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The true labels by row and falling weight, with their rank: the best ranking there is."""
        assert self.weight is not None
        weights = self.weight[truth.label]
        order = np.lexsort((-weights, truth.row))
        first = np.cumsum(self.positives) - self.positives
        row = truth.row[order]
        rank = np.arange(len(order)) - first[row]
        kept = rank < max_k
        return row[kept], rank[kept], weights[order][kept]

    def ideal_dcg(self, k: int) -> np.ndarray:
        """DCG@k of a perfect ranking, float64 [rows]."""
        result: np.ndarray = self._ideal[np.minimum(self.positives, k)]
        return result

    def best_psp(self, k: int) -> np.ndarray:
        best: np.ndarray = self._best_weighted(k, discounted=False) / k
        return best

    def best_psndcg(self, k: int) -> np.ndarray:
        best: np.ndarray = self._best_weighted(k, discounted=True) / self.ideal_dcg(k)
        return best

    def _best_weighted(self, k: int, discounted: bool) -> np.ndarray:
        """Sum of weights (discounted or not) of the best possible k, float64 [rows]."""
        if (k, discounted) not in self._best:
            counted = self._best_ranks < k
            gains = self._best_weights[counted]
            if discounted:
                gains = gains * self.discount[self._best_ranks[counted]]
            total = np.bincount(self._best_rows[counted], weights=gains, minlength=self.n)
            self._best[k, discounted] = total
        return self._best[k, discounted]


class _Cells:
    """The (bin, row) cells of one division that hold a hit, bin after bin."""

    def __init__(self, truth: Truth, hits: np.ndarray, division: LabelBins):
        self.division = division
        n, self.n_bins = truth.n_rows, len(division.names)
        truth_cell = division.of_label[truth.label].astype(np.int64) * n + truth.row
        # Totals of every cell, with hits or not, [bins, rows].
        shape = self.n_bins, n
        self.positives = np.bincount(truth_cell, minlength=self.n_bins * n).reshape(shape)
        self.total_relevance = np.bincount(truth_cell, truth.relevance, self.n_bins * n).reshape(shape)

        hit_cell = truth_cell[hits]
        present = np.zeros(self.n_bins * n, bool)
        present[hit_cell] = True
        self.cell = np.flatnonzero(present)
        self.row = self.cell % max(n, 1)
        self._starts = np.searchsorted(self.cell, np.arange(self.n_bins + 1) * n)
        self._of_hit = (np.cumsum(present) - 1)[hit_cell]
        self.label, self.position = truth.label[hits], truth.position[hits]
        self.relevance = truth.relevance[hits]

    def gather(self, k: int, weights: np.ndarray | None = None) -> np.ndarray:
        """Per cell, the number (or the total weight) of hits among the first k."""
        first = int(np.searchsorted(self.position, k))
        chosen = None if weights is None else weights[:first]
        return np.bincount(self._of_hit[:first], chosen, len(self.cell))

    def add_by_bin(self, into: np.ndarray, integers: np.ndarray) -> None:
        for b in range(self.n_bins):
            into[b] += integers[self._starts[b] : self._starts[b + 1]].sum()


def _fill_precision(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    """x = hits of the bin, y = k: bins add up to the whole. Rows without true labels count as 0."""
    hits = cells.gather(k)
    cells.add_by_bin(out[:, X], hits)
    cells.add_by_bin(out[:, XX], hits * hits)
    out[:, XY] += out[:, X] * k
    out[:, N] += rows.n
    out[:, Y] += rows.n * k
    out[:, YY] += rows.n * k * k
    return hits


def _fill_ratio(out: np.ndarray, cells: _Cells, x: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
    """x per cell over y per row, both in 0..1; every bin has the same y, so bins add up to the whole."""
    whole = on_grid(x)
    cells.add_by_bin(out[:, X], whole)
    cells.add_by_bin(out[:, XX], on_grid(x * x))
    cells.add_by_bin(out[:, XY], on_grid(x * y[cells.row]))
    out[:, N] += n
    out[:, Y] += on_grid(y).sum()
    out[:, YY] += on_grid(y * y).sum()
    return whole


def _fill_ndcg(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    gains = cells.gather(k, rows.discount[cells.position])
    return _fill_ratio(out, cells, gains / rows.ideal_dcg(k)[cells.row], np.ones(rows.n), rows.n)


def _fill_psp(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    """Over the best attainable on these rows, as pyxclib does."""
    assert rows.weight is not None
    gains = cells.gather(k, rows.weight[cells.label])
    return _fill_ratio(out, cells, gains / k, rows.best_psp(k), rows.n)


def _fill_psndcg(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    assert rows.weight is not None
    gains = cells.gather(k, rows.weight[cells.label] * rows.discount[cells.position])
    return _fill_ratio(out, cells, gains / rows.ideal_dcg(k)[cells.row], rows.best_psndcg(k), rows.n)


def _fill_share(out: np.ndarray, cells: _Cells, found: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Mean over rows that have something to find in the bin; y = 1 for those."""
    x = found / totals.ravel()[cells.cell]
    whole = on_grid(x)
    n = np.count_nonzero(totals, axis=1)
    cells.add_by_bin(out[:, X], whole)
    cells.add_by_bin(out[:, XX], on_grid(x * x))
    out[:, XY] += out[:, X]
    out[:, N] += n
    out[:, Y] += n * int(GRID)
    out[:, YY] = out[:, Y]
    return whole


def _fill_recall(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    return _fill_share(out, cells, cells.gather(k), cells.positives)


def _fill_weighted_recall(out: np.ndarray, cells: _Cells, rows: _Rows, k: int) -> np.ndarray:
    return _fill_share(out, cells, cells.gather(k, cells.relevance), cells.total_relevance)


# Each adds to the sums of the bins of a division, and returns x of each cell.
_FILL: dict[str, Callable[[np.ndarray, _Cells, _Rows, int], np.ndarray]] = {
    "P": _fill_precision,
    "R": _fill_recall,
    "nDCG": _fill_ndcg,
    "PSP": _fill_psp,
    "PSnDCG": _fill_psndcg,
    "wR": _fill_weighted_recall,
}
# What is to be found in each bin and row: it counts where that is anything.
_OWN_TOTALS: dict[str, Callable[[_Cells], np.ndarray]] = {
    "R": lambda cells: cells.positives,
    "wR": lambda cells: cells.total_relevance,
}
# y of each row, the same in all bins.
_ROW_TOTALS: dict[str, Callable[[_Rows, int], np.ndarray]] = {
    "P": lambda rows, k: np.full(rows.n, k),
    "nDCG": lambda rows, k: on_grid(np.ones(rows.n)),
    "PSP": lambda rows, k: on_grid(rows.best_psp(k)),
    "PSnDCG": lambda rows, k: on_grid(rows.best_psndcg(k)),
}
