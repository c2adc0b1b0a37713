"""The bootstrap of the metrics: how much each instance weighs in each replicate, and what interval and p-value the
replicates of a number give. A weight is a hash of the instance's key and the replicate, so that it is the same
wherever the instance lies, and in every run that is compared with another."""

from __future__ import annotations

from functools import cache
from math import factorial

import numpy as np

from xmcspark.sparse.id_hash import bits, mixed

REPLICATES = 200  # unless somebody asks for another number
COMPARED_REPLICATES = 1000  # of a comparison: its p-values are multiples of 2 / (replicates + 1)
LEAST_REPLICATES = 39  # with fewer, no replicate lies beyond 2.5%
_ONE_IN = 40  # 2.5% on each side
_STREAM = np.array([0xB007], np.uint64)  # the same for all runs: that is what makes comparisons paired
_STEP = np.uint64(0x9E3779B97F4A7C15)
_DRAWS = 1 << 16  # a weight takes 16 bits of a hash, so a hash makes four
_BLOCK_ROWS = 1 << 11  # hashed together: temporary arrays stay in the cache


def poisson_weights(row_keys: np.ndarray, count: int) -> np.ndarray:
    """uint8 [rows, count]: how often each row is drawn in each replicate, Poisson with mean 1."""
    table = _poisson_table()
    stream = mixed(bits(row_keys) ^ mixed(_STREAM))
    steps = np.arange((count + 3) // 4, dtype=np.uint64) * _STEP
    weights = np.empty((len(stream), count), np.uint8)
    for start in range(0, len(stream), _BLOCK_ROWS):
        hashes = mixed(stream[start : start + _BLOCK_ROWS, None] + steps)
        draws = np.ascontiguousarray(hashes, "<u8").view("<u2")[:, :count]
        np.take(table, draws, out=weights[start : start + _BLOCK_ROWS])
    return weights


@cache
def _poisson_table() -> np.ndarray:
    """The weight that each of 2^16 equally likely draws stands for."""
    at_most = np.cumsum([0.36787944117144233 / factorial(n) for n in range(12)])
    borders = np.rint(at_most * _DRAWS).astype(np.int64)
    return np.searchsorted(borders, np.arange(_DRAWS), side="right").astype(np.uint8)


def ratios(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y of each replicate; NaN where nothing was drawn that counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(y > 0, x / y, np.nan)


def interval(replicates: np.ndarray) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of those that are known: of 999 replicates the 25th from below and above."""
    known = np.sort(replicates[~np.isnan(replicates)])
    beyond = (len(known) + 1) // _ONE_IN
    return (float(known[beyond - 1]), float(known[-beyond])) if beyond else (np.nan, np.nan)


def p_value(replicates: np.ndarray) -> float:
    """Two-sided, of the hypothesis that the number is 0: at most 0.05 just when the interval leaves 0 out."""
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return np.nan
    rarer = min(np.count_nonzero(known <= 0), np.count_nonzero(known >= 0))
    return float(min(1.0, 2 * (1 + rarer) / (len(known) + 1)))
