"""Hashes of ids: random-looking choices and order-free sums that depend on what a thing is, never on where it lies."""

from __future__ import annotations

import numpy as np


def mixed(x: np.ndarray) -> np.ndarray:
    """splitmix64 of each number, as native/random.h has it."""
    with np.errstate(over="ignore"):
        x = x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def bits(numbers: np.ndarray) -> np.ndarray:
    """Signed 64-bit numbers, as Spark has them, as the same bits unsigned."""
    return np.ascontiguousarray(numbers, np.int64).view(np.uint64)
