"""The one form in which sparse matrices reach the kernels: CSR with int64 row pointers, int32 column
indices in increasing order and finite float32 values. Everything else is converted or refused here,
before native code runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark._native.csr import first_bad_row, transpose
from xmcspark.errors import InputError

_REASONS = {
    "indptr": "its row pointers do not start at 0, decrease, or do not end at the number of stored values",
    "range": "a column index is negative or not below the number of columns",
    "order": "its column indices are not strictly increasing (duplicates are not allowed)",
    "finite": "a value is NaN, infinite or too large for float32",
}


@dataclass(frozen=True)
class Csr:
    """A valid CSR matrix. Make one with `as_csr`; the arrays are contiguous and are not copied again."""

    indptr: np.ndarray  # int64[rows + 1]
    indices: np.ndarray  # int32[nnz], increasing in each row
    data: np.ndarray  # float32[nnz]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        fits = (
            [a.dtype.str for a in (self.indptr, self.indices, self.data)] == ["<i8", "<i4", "<f4"]
            and len(self.indptr) == self.shape[0] + 1
            and self.indptr[0] == 0
            and self.indptr[-1] == len(self.indices) == len(self.data)
        )
        if not fits:
            raise InputError("these arrays are not a CSR matrix of this shape: make it with as_csr")

    @property
    def nnz(self) -> int:
        return len(self.indices)

    def to_scipy(self) -> sp.csr_matrix:
        """The same matrix for scipy; shares indices and values while nnz fits in int32."""
        matrix = sp.csr_matrix(self.shape, dtype=np.float32)
        index = np.int32 if self.nnz < 2**31 else np.int64
        matrix.data = self.data
        matrix.indices = self.indices.astype(index, copy=False)
        matrix.indptr = self.indptr.astype(index)
        matrix.has_sorted_indices = True
        matrix.has_canonical_format = True
        return matrix

    def transpose(self) -> Csr:
        """The transposed matrix, rows in increasing order."""
        indptr, indices, data = transpose(self.indptr, self.indices, self.data, self.shape[1])
        return Csr(indptr, indices, data, (self.shape[1], self.shape[0]))


def as_csr(matrix: Any, name: str = "matrix", *, rows: int | None = None, cols: int | None = None) -> Csr:
    """`matrix` (scipy sparse of any format, dense 2-d array, or Csr) as a checked `Csr`.

    Unsorted or duplicate entries of a scipy matrix are sorted and summed; explicit zeros stay. `rows` and
    `cols`, where given, are the shape the matrix must have to go with its companions.
    """
    result = matrix if isinstance(matrix, Csr) else _convert(matrix, name)
    for axis, wanted in (("rows", rows), ("cols", cols)):
        found = result.shape[axis == "cols"]
        if wanted is not None and found != wanted:
            word = "columns" if axis == "cols" else "rows"
            raise InputError(
                f"{name} has {found} {word}, but what it goes with has {wanted}: they must be equal"
            )
    return result


def _convert(matrix: Any, name: str) -> Csr:
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise InputError(
                f"{name} must be a sparse matrix or a 2-d numeric array, not {matrix.dtype} of {matrix.ndim} "
                "dimensions"
            )
        matrix = sp.csr_matrix(matrix)
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"{name} has values of type {matrix.dtype}: real numbers are needed")
    if max(matrix.shape) >= 2**31:
        raise InputError(f"{name} is {matrix.shape}: at most 2^31 - 1 rows and columns are supported")
    if matrix.format != "csr":
        _check_compressed(matrix, name)
        matrix = matrix.tocsr()
    result = _checked(matrix, name)
    if result is None:  # unsorted or duplicates: let scipy put them right, once
        matrix = matrix.copy()
        matrix.sum_duplicates()
        result = _checked(matrix, name)
    if result is None:
        raise InputError(f"{name}: {_REASONS['order']}")
    return result


def _check_compressed(matrix: Any, name: str) -> None:
    """scipy's own conversions read out of bounds on malformed input: look first."""
    if matrix.format == "csc":
        found = _first_bad(
            matrix.indptr, matrix.indices, np.zeros(len(matrix.indices), np.float32), matrix.shape[0]
        )
        if found is not None and found[1] != "order":
            raise InputError(f"{name}, column {found[0]}: {_REASONS[found[1]]}")
    elif matrix.format == "coo" and matrix.nnz:
        for axis, index in enumerate((matrix.row, matrix.col)):
            if len(index) != matrix.nnz or index.min() < 0 or index.max() >= matrix.shape[axis]:
                raise InputError(f"{name}: {_REASONS['range']}")


def _first_bad(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, cols: int
) -> tuple[int, str] | None:
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        return 0, "indptr"
    if len(indices) and (indices.dtype.itemsize > 4) and (indices.min() < 0 or indices.max() >= cols):
        return 0, "range"
    return first_bad_row(
        np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int32), data, cols
    )


def _checked(matrix: Any, name: str) -> Csr | None:
    """The arrays of a scipy CSR as a Csr; None if only the order of its indices is wrong."""
    if len(matrix.indptr) != matrix.shape[0] + 1:
        raise InputError(f"{name}: {len(matrix.indptr)} row pointers for {matrix.shape[0]} rows")
    with np.errstate(over="ignore"):
        data = np.ascontiguousarray(matrix.data, np.float32)
    bad = _first_bad(matrix.indptr, matrix.indices, data, matrix.shape[1])
    if bad is not None:
        if bad[1] == "order":
            return None
        raise InputError(f"{name}, row {bad[0]}: {_REASONS[bad[1]]}")
    return Csr(
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int32),
        data,
        (int(matrix.shape[0]), int(matrix.shape[1])),
    )
