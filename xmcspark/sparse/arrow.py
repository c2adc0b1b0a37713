"""An Arrow list column is a CSR matrix: offsets are row pointers, values are columns. Reads list columns as
matrices without copying their values, and matrices as list columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark._native.csr import first_bad_row
from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr


def csr_of_lists(indices: pa.Array, values: pa.Array | None, cols: int, name: str = "rows") -> Csr:
    """Rows of a `list<int32>` column and, beside it, a `list<float>` one (ones where there is none). Null lists are
    empty rows. Order and values are checked, the range of the columns is not."""
    indptr, columns, data = parts_of_lists(indices, values, name)
    # Any column number will do here: a caller may be about to leave out those beyond `cols`.
    bad = first_bad_row(indptr, columns, data, 2**31 - 1)
    if bad is not None:
        raise InputError(f"{name}, row {bad[0]}: columns must be increasing and not negative, values finite")
    return Csr(indptr, columns, data, (len(indptr) - 1, cols))


def csr_of_targets(labels: pa.Array, targets: pa.Array, cols: int, name: str = "labels") -> Csr:
    """Rows of a `list<int32>` column of labels with the targets beside it: a row without targets has 1 for each."""
    if targets.null_count == len(targets):
        return csr_of_lists(labels, None, cols, name)
    ones = csr_of_lists(labels, None, cols, name)
    given = pc.is_valid(targets).to_numpy(zero_copy_only=False)
    lengths, found = np.diff(ones.indptr), pc.list_value_length(targets).fill_null(0).to_numpy()
    if (lengths[given] != found[given]).any():
        row = int(np.flatnonzero(given & (lengths != found))[0])
        raise InputError(f"{name}, row {row}: as many targets as labels are needed")
    _, values = _parts(targets, np.float32, f"{name}: targets")
    data = ones.data.copy()
    data[np.repeat(given, lengths)] = values
    return Csr(ones.indptr, ones.indices, data, ones.shape)


def parts_of_lists(
    indices: pa.Array, values: pa.Array | None, name: str = "rows"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row pointers, columns, values) of such columns, in whatever order they are."""
    indptr, columns = _parts(indices, np.int32, f"{name}: columns")
    if values is None:
        return indptr, columns, np.ones(len(columns), np.float32)
    value_ptr, data = _parts(values, np.float32, f"{name}: values")
    if not np.array_equal(indptr, value_ptr):
        row = int(np.argmax(np.diff(indptr) != np.diff(value_ptr)))
        raise InputError(f"{name}, row {row}: as many values as columns are needed")
    return indptr, columns, data


def lists_of_csr(matrix: Csr) -> tuple[pa.Array, pa.Array]:
    """(columns, values) of a matrix as `list<int32>` and `list<float>`."""
    if matrix.nnz >= 2**31:
        raise InputError(
            f"{matrix.nnz} entries in one Arrow batch: at most 2^31 - 1 fit, use smaller batches"
        )
    offsets = pa.array(matrix.indptr.astype(np.int32))
    return (
        pa.ListArray.from_arrays(offsets, pa.array(matrix.indices)),
        pa.ListArray.from_arrays(offsets, pa.array(matrix.data)),
    )


def _parts(lists: pa.Array, dtype: type, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(row pointers from 0, values) of a list column, which may be a slice of a larger one."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    if lists.null_count:
        lists = lists.fill_null([])
    offsets = lists.offsets.to_numpy().astype(np.int64)
    flat = lists.values
    if flat.null_count:
        raise InputError(f"{name}: null inside a list; leave the entry out")
    taken = flat.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    if taken.dtype != dtype:
        taken = taken.astype(dtype)
    return offsets - offsets[0], taken
