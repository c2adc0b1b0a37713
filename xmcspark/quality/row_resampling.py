"""The bootstrap of metrics over rows: x and y of every row, metric, k and bin as columns of one matrix, whose product
with the rows' weights is all sums of all replicates. Its numbers are whole and small enough for float64 to add them
without loss, so that the order of a matrix product's additions does not show."""

from __future__ import annotations

import numpy as np

from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.bootstrap import poisson_weights
from xmcspark.quality.label_bins import LabelBins
from xmcspark.quality.replicates import Replicates, X, Y


class RowResampling:
    """Takes up what rows add to metrics, and resamples those rows. A block of rows is few enough for its sums to stay
    below 2^53: 2^13 rows of at most 2^30, with weights below 2^4."""

    MOST_ROWS = 1 << 13

    def __init__(
        self,
        metrics: tuple[str, ...],
        n_ks: int,
        n_bins: int,
        predictions: Predictions,
        row_keys: np.ndarray,
        count: int,
    ) -> None:
        assert len(row_keys) <= self.MOST_ROWS
        self.metrics, self._shape = metrics, (n_ks, n_bins)
        self._predictions, self._row_keys, self._count = predictions, row_keys, count
        self._columns: list[np.ndarray] = []  # float64 [some, rows] each
        self._places: list[tuple[int | slice, ...]] = []  # where their sums belong

    def put_x(self, metric: str, k: int, bins: slice, cell: np.ndarray, x: np.ndarray) -> None:
        """x of the (bin, row) cells of a division that are not 0."""
        rows = len(self._row_keys)
        dense = np.zeros((bins.stop - bins.start) * rows)
        dense[cell] = x
        self._put(dense.reshape(-1, rows), (self._at(metric), k, bins, X))

    def put_y(self, metric: str, k: int, y: np.ndarray, bins: slice | None = None) -> None:
        """y [rows] that all bins have, or [bins, rows] of some bins."""
        self._put(np.atleast_2d(y), (self._at(metric), k, slice(None) if bins is None else bins, Y))

    def put_bins_y(self, metric: str, bins: slice, y: np.ndarray) -> None:
        """y [bins, rows], whatever k is."""
        self._put(y, (self._at(metric), slice(None), bins, Y))

    def predicted(self, division: LabelBins, k: int) -> np.ndarray:
        """Predictions among the first k in each bin, [bins, rows]."""
        labels = self._predictions.labels[:, :k]
        rows, there = len(labels), labels >= 0
        bin_of = division.of_label[labels[there]].astype(np.int64)
        row_of = np.broadcast_to(np.arange(rows)[:, None], labels.shape)[there]
        n_bins = len(division.names)
        return np.bincount(bin_of * rows + row_of, minlength=n_bins * rows).reshape(n_bins, rows)

    def replicates(self) -> Replicates:
        """The sums of everything that was put here, in each replicate."""
        result = Replicates.zero(self.metrics, *self._shape, self._count)
        if not self._columns or not self._count:
            return result
        weights = poisson_weights(self._row_keys, self._count).astype(np.float64)
        sums = (np.concatenate(self._columns) @ weights).astype(np.int64)
        ends = np.cumsum([len(columns) for columns in self._columns])
        for place, part in zip(self._places, np.split(sums, ends[:-1]), strict=True):
            result.values[place] = part
        return result

    def _put(self, columns: np.ndarray, place: tuple[int | slice, ...]) -> None:
        self._columns.append(columns.astype(np.float64, copy=False))
        self._places.append(place)

    def _at(self, metric: str) -> int:
        return self.metrics.index(metric)
