"""The one form in which matrices reach the kernels: CSR with int64 row pointers, int32 column indices in increasing
order and finite float32 values, and beside it, where rows have embeddings, a dense block that holds the last columns.
Everything else is converted or refused here, before native code runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    """A valid CSR matrix. Make one with `as_csr` or `with_dense`; the arrays are contiguous and are not copied again.
    With a dense block the columns before it are sparse, and `indices`, `data` and `nnz` are theirs alone."""

    indptr: np.ndarray  # int64[rows + 1]
    indices: np.ndarray  # int32[nnz], increasing in each row
    data: np.ndarray  # float32[nnz]
    shape: tuple[int, int]  # all columns, those of the dense block included
    dense: np.ndarray | None = None  # float32[rows, width]: the last columns, every value stored

    def __post_init__(self) -> None:
        fits = (
            [a.dtype.str for a in (self.indptr, self.indices, self.data)] == ["<i8", "<i4", "<f4"]
            and len(self.indptr) == self.shape[0] + 1
            and self.indptr[0] == 0
            and self.indptr[-1] == len(self.indices) == len(self.data)
        )
        if fits and self.dense is not None:
            fits = (
                self.dense.dtype.str == "<f4"
                and self.dense.ndim == 2
                and self.dense.flags.c_contiguous
                and self.dense.shape[0] == self.shape[0]
                and 0 < self.dense.shape[1] <= self.shape[1]
            )
        if not fits:
            raise InputError("these arrays are not a CSR matrix of this shape: make it with as_csr")

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        """Columns of the dense block; 0 if there is none."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    @property
    def sparse(self) -> Csr:
        """The columns before the dense block."""
        if self.dense is None:
            return self
        return Csr(self.indptr, self.indices, self.data, (self.shape[0], self.shape[1] - self.width))

    def expanded(self) -> Csr:
        """The same matrix without a dense block: its values are entries like all others."""
        if self.dense is None:
            return self
        rows, width = self.dense.shape
        first, counts = self.shape[1] - width, np.diff(self.indptr)
        indptr = self.indptr + width * np.arange(rows + 1, dtype=np.int64)
        indices = np.empty(self.nnz + rows * width, np.int32)
        data = np.empty(self.nnz + rows * width, np.float32)
        after = np.arange(self.nnz, dtype=np.int64) + width * np.repeat(
            np.arange(rows, dtype=np.int64), counts
        )
        indices[after], data[after] = self.indices, self.data
        last = (indptr[1:] - width)[:, None] + np.arange(width)
        indices[last], data[last] = np.arange(first, first + width, dtype=np.int32), self.dense
        return Csr(indptr, indices, data, self.shape)

    def to_scipy(self) -> sp.csr_matrix:
        """The same matrix for scipy; shares indices and values while nnz fits in int32 and nothing is dense."""
        if self.dense is not None:
            return self.expanded().to_scipy()
        matrix = sp.csr_matrix(self.shape, dtype=np.float32)
        index = np.int32 if self.nnz < 2**31 else np.int64
        matrix.data = self.data
        matrix.indices = self.indices.astype(index, copy=False)
        matrix.indptr = self.indptr.astype(index)
        matrix.has_sorted_indices = True
        matrix.has_canonical_format = True
        return matrix

    def transpose(self) -> Csr:
        """The transposed matrix, rows in increasing order; nothing of it is dense."""
        if self.dense is not None:
            return self.expanded().transpose()
        indptr, indices, data = transpose(self.indptr, self.indices, self.data, self.shape[1])
        return Csr(indptr, indices, data, (self.shape[1], self.shape[0]))


def as_csr(
    matrix: Any,
    name: str = "matrix",
    *,
    rows: int | None = None,
    cols: int | None = None,
    dense: Literal["refuse", "keep", "expand"] = "refuse",
) -> Csr:
    """`matrix` (scipy sparse of any format, dense 2-d array, or Csr) as a checked `Csr`.

    Unsorted or duplicate entries of a scipy matrix are sorted and summed; explicit zeros stay. `rows` and
    `cols`, where given, are the shape the matrix must have to go with its companions. `dense` says what becomes of a
    dense block: where it cannot be used as it is, it is never dropped silently.
    """
    result = matrix if isinstance(matrix, Csr) else _convert(matrix, name)
    if result.dense is not None and dense == "refuse":
        raise InputError(
            f"{name} has a dense block of {result.width} columns, which has no use here: give its sparse columns alone "
            "(`.sparse`), or the block as ordinary entries (`.expanded()`)"
        )
    if dense == "expand":
        result = result.expanded()
    for axis, wanted in (("rows", rows), ("cols", cols)):
        found = result.shape[axis == "cols"]
        if wanted is not None and found != wanted:
            word = "columns" if axis == "cols" else "rows"
            raise InputError(
                f"{name} has {found} {word}, but what it goes with has {wanted}: they must be equal"
            )
    return result


def with_dense(matrix: Any, dense: Any, name: str = "matrix") -> Csr:
    """`matrix` with the columns of a dense array after its own."""
    sparse = as_csr(matrix, name, dense="keep")
    if sparse.dense is not None:
        raise InputError(f"{name} has a dense block already: put both into one array")
    block = np.ascontiguousarray(dense, np.float32)
    if block.ndim != 2 or block.shape[0] != sparse.shape[0] or not block.shape[1]:
        raise InputError(
            f"the dense block of {name} has shape {block.shape}: one row for each of its {sparse.shape[0]} rows is "
            "needed, of at least one value"
        )
    if not np.isfinite(block).all():
        raise InputError(
            f"the dense block of {name} has a value that is NaN, infinite or too large for float32"
        )
    shape = (sparse.shape[0], sparse.shape[1] + block.shape[1])
    return Csr(sparse.indptr, sparse.indices, sparse.data, shape, block)


def check_width(X: Csr, width: int, of: str) -> None:
    """That the dense block of X is as wide as that of what it goes with."""
    if X.width == width:
        return
    if not width:
        raise InputError(
            f"X has a dense block of {X.width} columns, but {of} has none: give X.sparse to leave the block out, or "
            "X.expanded() if its columns are features like all others"
        )
    found = f"one of {X.width}" if X.width else "none"
    raise InputError(
        f"{of} has a dense block of {width} columns, but X has {found}: give with_dense(sparse columns, embeddings), "
        f"with embeddings of {width} columns"
    )


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
