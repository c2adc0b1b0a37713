"""Inputs hashed into fewer columns: each feature has a column and a sign, features that meet are added, and rows get
back the length that they had (Weinberger et al. 2009). Each repetition hashes anew, so two features that meet in
one are apart in the others. Nothing is stored: columns and signs follow from seed, repetition and feature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xmcspark.labels.draws import hashed, streams
from xmcspark.matchers.targets import rows_of, select
from xmcspark.sparse.csr import Csr

_BLOCK_ENTRIES = 1 << 20  # of X: hashing takes about 90 bytes for each at once


def hashed_rows(X: Csr, columns: int, seed: int, repetition: int) -> Csr:
    """X [rows, features] as [rows, columns]. Sums are added in the order of features. A block of rows is hashed at a
    time, so that not much more is held than what comes out."""
    stream = streams(seed, "feature hashing", np.array([repetition]))
    indices, data = np.empty(X.nnz, np.int32), np.empty(X.nnz, np.float32)
    indptr, filled = np.zeros(X.shape[0] + 1, np.int64), 0
    for first, last in _blocks(X.indptr):
        at = slice(X.indptr[first], X.indptr[last])
        ptr = X.indptr[first : last + 1] - X.indptr[first]
        some = Csr(ptr, X.indices[at], X.data[at], (last - first, X.shape[1]))
        made = _hashed(some, columns, stream)
        indptr[first + 1 : last + 1] = filled + made.indptr[1:]
        indices[filled : filled + made.nnz], data[filled : filled + made.nnz] = made.indices, made.data
        filled += made.nnz
    return Csr(indptr, indices[:filled], data[:filled], (X.shape[0], columns))


def _blocks(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about as many entries as a block may have, at least one row each."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        full = int(np.searchsorted(indptr, indptr[first] + _BLOCK_ENTRIES, side="right")) - 1
        last = min(max(first + 1, full), rows)
        yield first, last
        first = last


def _hashed(X: Csr, columns: int, stream: np.ndarray) -> Csr:
    draws = hashed(stream, X.indices)
    rows = rows_of(X)
    signed = np.where(draws >> np.uint64(63), -X.data, X.data).astype(np.float64)
    # The low 32 bits, scaled: close enough to uniform for any number of columns below 2^31.
    column = ((draws & np.uint64(2**32 - 1)) * np.uint64(columns)) >> np.uint64(32)
    cells, cell_of = np.unique(rows * np.int64(columns) + column.astype(np.int64), return_inverse=True)
    sums = np.bincount(cell_of, signed, len(cells))
    cell_rows = cells // columns
    before = _squares(rows, signed, X.shape[0])
    after = _squares(cell_rows, sums, X.shape[0])
    scale = np.sqrt(np.divide(before, after, out=np.zeros_like(before), where=after > 0))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(cell_rows, minlength=X.shape[0]))]).astype(np.int64)
    data = (sums * scale[cell_rows]).astype(np.float32)
    made = Csr(indptr, (cells % columns).astype(np.int32), data, (X.shape[0], columns))
    return made if made.data.all() else select(made, made.data != 0)


def _squares(rows: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The squared length of each row, added in order."""
    return np.bincount(rows, values * values, count)
