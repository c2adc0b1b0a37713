"""Rows of matrices: some of them, in any order and with repeats, or those of several one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xmcspark.sparse.csr import Csr


def take_rows(matrix: Csr, rows: np.ndarray) -> Csr:
    """The given rows (numbers from 0), in the order given."""
    taken = matrix.sparse.to_scipy()[rows]  # copies row by row: three times as fast as gathering entries
    indices = taken.indices.astype(np.int32, copy=False)
    dense = None if matrix.dense is None else matrix.dense[rows]
    return Csr(taken.indptr.astype(np.int64), indices, taken.data, (len(rows), matrix.shape[1]), dense)


def stacked_rows(parts: Sequence[Csr]) -> Csr:
    """The rows of all parts, which have the same columns, and the same of them dense."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    return Csr(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.data for part in parts]),
        (len(counts), parts[0].shape[1]),
        None if parts[0].dense is None else np.concatenate([part.dense for part in parts]),
    )
