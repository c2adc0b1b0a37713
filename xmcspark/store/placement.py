"""Which partition Spark puts a key into. `repartition(n, key)` hashes its keys, so some partitions would get several
groups and others none: here are keys that hash to each partition in turn."""

from __future__ import annotations

import numpy as np

_SEED = 42  # of Spark's hash partitioning


def murmur3(keys: np.ndarray) -> np.ndarray:
    """Spark's `hash(key)` of int keys, as int32."""
    with np.errstate(over="ignore"):
        k = np.asarray(keys, np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotated(k, 15) * np.uint32(0x1B873593)
        h = _rotated(np.uint32(_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)  # bytes of an int
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    hashed: np.ndarray = (h ^ (h >> np.uint32(16))).view(np.int32)
    return hashed


def partition_keys(partitions: int) -> list[int]:
    """keys[i] is an int that `repartition(partitions, key)` puts into partition i; the same ones every time."""
    keys = np.full(partitions, -1, np.int64)
    first, missing = 0, partitions
    while missing:
        tried = np.arange(first, first + 4 * partitions + 64, dtype=np.int64)
        to = (
            murmur3(tried.astype(np.int32)).astype(np.int64) % partitions
        )  # numpy's % is never negative: pmod
        found, at = np.unique(to, return_index=True)
        new = keys[found] < 0
        keys[found[new]] = tried[at[new]]
        first, missing = first + len(tried), int(np.count_nonzero(keys < 0))
    return [int(key) for key in keys]


def _rotated(bits: np.ndarray, by: int) -> np.ndarray:
    turned: np.ndarray = (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))
    return turned
