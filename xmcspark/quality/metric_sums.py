"""What partitions add up: for each metric, k and bin a handful of integers. Every metric is a ratio
sum(x) / sum(y) over rows or labels; x and y are rounded to a fixed grid and kept as integers, so that sums
are exact in any order and a distributed evaluation equals a local one to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xmcspark.errors import InputError
from xmcspark.quality.replicates import Replicates

GRID = float(1 << 30)  # x, y in 0..1: sums over 2^32 rows fit in int64
_MOST_UNITS = 1 << 32
_COLUMNS = 6
N, X, Y, XX, XY, YY = range(_COLUMNS)
_NORMAL_95 = 1.959963984540054

ROW_METRICS = ("P", "R", "nDCG", "PSP", "PSnDCG", "wR")
LABEL_METRICS = ("coverage", "macro-F1", "micro-F1")
WEIGHTED_METRICS = frozenset({"PSP", "PSnDCG"})  # need propensities
_COUNTED = frozenset({"P", "coverage", "micro-F1"})  # x and y are whole numbers, not on the grid


class MetricRow(NamedTuple):
    """One line of the `metrics` table; NaN where the value is not defined (nothing to average over)."""

    metric: str
    k: int
    bin: str
    value: float
    low: (
        float  # 95% interval over rows: bootstrap, or normal approximation (NaN then for metrics over labels)
    )
    high: float
    n: int  # rows, labels or positives the value is over


@dataclass(frozen=True)
class MetricSums:
    """Sums of n, x, y, x², xy, y² for each metric, k and bin; `+` puts partitions together."""

    metrics: tuple[str, ...]
    ks: tuple[int, ...]
    bins: tuple[str, ...]
    values: np.ndarray  # int64 [metrics, ks, bins, 6]

    @staticmethod
    def zero(metrics: tuple[str, ...], ks: tuple[int, ...], bins: tuple[str, ...]) -> MetricSums:
        return MetricSums(metrics, ks, bins, np.zeros((len(metrics), len(ks), len(bins), _COLUMNS), np.int64))

    def __add__(self, other: MetricSums) -> MetricSums:
        if (self.metrics, self.ks, self.bins) != (other.metrics, other.ks, other.bins):
            raise InputError("metric sums of different metrics, ks or bins cannot be added")
        return MetricSums(self.metrics, self.ks, self.bins, self.values + other.values)

    def to_rows(self, replicates: Replicates | None = None) -> list[MetricRow]:
        """The metrics, in order of metric, k and bin. Intervals are those of the replicates, if there are any."""
        if self.values[..., N].max(initial=0) > _MOST_UNITS:
            raise InputError("more than 2^32 rows were evaluated together: evaluate a sample of them")
        rows = []
        for i, metric in enumerate(self.metrics):
            for j, k in enumerate(self.ks):
                for b, name in enumerate(self.bins):
                    value, low, high, n = _ratio(metric, self.values[i, j, b])
                    if replicates is not None and replicates.count:
                        sure = value == value and n > 1
                        low, high = replicates.interval(metric, j, b) if sure else (np.nan, np.nan)
                    rows.append(MetricRow(metric, k, name, value, low, high, n))
        return rows


def _ratio(metric: str, sums: np.ndarray) -> tuple[float, float, float, int]:
    """Value, interval and n. The interval is the ratio's, by the delta method; for y = 1 it is the mean's."""
    n = int(sums[N])
    if sums[Y] == 0:
        return np.nan, np.nan, np.nan, n
    value = float(sums[X]) / float(sums[Y])
    if metric in LABEL_METRICS or n < 2:
        return value, np.nan, np.nan, n
    unit = 1.0 if metric in _COUNTED else GRID
    xx, xy, yy, y = (float(sums[column]) / unit for column in (XX, XY, YY, Y))
    spread = max(0.0, xx - 2.0 * value * xy + value * value * yy) ** 0.5
    half = _NORMAL_95 * spread / y
    return value, max(0.0, value - half), min(1.0, value + half), n


def on_grid(values: np.ndarray) -> np.ndarray:
    """Values in 0..1 as whole numbers of the grid's unit."""
    result: np.ndarray = np.rint(values * GRID).astype(np.int64)
    return result
