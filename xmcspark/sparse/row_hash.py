"""Hashes of rows of Arrow columns: the same numbers as Spark's `xxhash64` over the same columns, so that a table has
them whoever wrote it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from xmcspark._native.row_hash import fold_bytes, fold_words
from xmcspark.sparse.arrow import parts_of_lists

_SEED = 42  # Spark's


def text_hashes(texts: pa.Array) -> np.ndarray:
    """int64, `xxhash64(text)` of a string column without nulls."""
    hashes = np.full(len(texts), _SEED, np.uint64)
    fold_bytes(hashes, *_bytes_of(texts))
    return hashes.view(np.int64)


def instance_hashes(texts: pa.Array, labels: pa.Array, relevance: pa.Array) -> np.ndarray:
    """int64, `xxhash64(text, labels, relevance)` of columns string, list<int32> and list<float>, without nulls."""
    hashes = np.full(len(texts), _SEED, np.uint64)
    fold_bytes(hashes, *_bytes_of(texts))
    indptr, ids, weights = parts_of_lists(labels, relevance)
    fold_words(hashes, indptr, ids)
    fold_words(hashes, indptr, weights.view(np.int32))
    return hashes.view(np.int64)


def augmented_hashes(
    texts: pa.Array,
    labels: pa.Array,
    targets: pa.Array,
    relevance: pa.Array,
    partners: pa.Array | None = None,
) -> np.ndarray:
    """int64, of rows of the table `augmented`, as for instances, then targets, then the second texts."""
    hashes = instance_hashes(texts, labels, relevance).view(np.uint64)
    indptr, _, values = parts_of_lists(labels, targets)
    fold_words(hashes, indptr, values.view(np.int32))
    if partners is not None:
        fold_bytes(hashes, *_bytes_of(partners))
    return hashes.view(np.int64)


def _bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of a string column, which may be a slice of a larger one."""
    wide = texts.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    inside = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return inside, np.frombuffer(data or b"", np.uint8)
