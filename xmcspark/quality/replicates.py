"""What partitions add up for the bootstrap: sum(x) and sum(y) of each metric, k and bin once more for each replicate,
as whole numbers, exact in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.errors import InputError
from xmcspark.quality.bootstrap import interval, ratios

X, Y = 0, 1


@dataclass(frozen=True)
class Replicates:
    """Sums of x and y in each replicate; `+` puts partitions together."""

    metrics: tuple[str, ...]
    values: np.ndarray  # int64 [metrics, ks, bins, 2, replicates]

    @staticmethod
    def zero(metrics: tuple[str, ...], n_ks: int, n_bins: int, count: int) -> Replicates:
        return Replicates(metrics, np.zeros((len(metrics), n_ks, n_bins, 2, count), np.int64))

    def __add__(self, other: Replicates) -> Replicates:
        if self.metrics != other.metrics or self.values.shape != other.values.shape:
            raise InputError("replicates of different metrics, ks, bins or numbers cannot be added")
        return Replicates(self.metrics, self.values + other.values)

    @property
    def count(self) -> int:
        return int(self.values.shape[-1])

    def and_of(self, other: Replicates) -> Replicates:
        """Of the metrics of both."""
        return Replicates(self.metrics + other.metrics, np.concatenate([self.values, other.values]))

    def of(self, metric: str, k: int, bin: int) -> np.ndarray:
        """float64 [replicates]: a metric in each replicate, at the k and in the bin of these places."""
        sums = self.values[self.metrics.index(metric), k, bin]
        return ratios(sums[X], sums[Y])

    def interval(self, metric: str, k: int, bin: int) -> tuple[float, float]:
        """The 95% interval of a metric."""
        low, high = np.clip(interval(self.of(metric, k, bin)), 0.0, 1.0)
        return float(low), float(high)
