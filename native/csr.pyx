"""Validation of compressed sparse rows, before any other kernel sees them."""

import numpy as np

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t


def first_bad_row(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data,
                  int64_t cols):
    """(row, reason) of the first malformed row, or None.

    Reads all three arrays. Reasons: "indptr", "range", "order" (indices not strictly increasing), "finite".
    """
    cdef int64_t rows = indptr.shape[0] - 1, nnz = indices.shape[0], r, p
    cdef int64_t bad_row = -1
    cdef int32_t previous, column
    cdef int reason = 0
    if indptr[0] != 0 or indptr[rows] != nnz or data.shape[0] != nnz:
        return 0, "indptr"
    for r in range(rows):
        if indptr[r + 1] < indptr[r]:
            return r, "indptr"
    with nogil:
        for r in range(rows):
            previous = -1
            for p in range(indptr[r], indptr[r + 1]):
                column = indices[p]
                if column < 0 or column >= cols:
                    reason = 1
                elif column <= previous:
                    reason = 2
                elif not isfinite(data[p]):
                    reason = 3
                if reason:
                    bad_row = r
                    break
                previous = column
            if reason:
                break
    if reason == 0:
        return None
    return bad_row, ("", "range", "order", "finite")[reason]


def transpose(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t cols):
    """(indptr, indices, data) of the transposed matrix: a counting sort by column."""
    cdef int64_t rows = indptr.shape[0] - 1, nnz = indices.shape[0], r, p, at
    out_indptr = np.zeros(cols + 1, np.int64)
    out_indices = np.empty(nnz, np.int32)
    out_data = np.empty(nnz, np.float32)
    cdef int64_t[::1] start = out_indptr
    cdef int32_t[::1] to_row = out_indices
    cdef float[::1] to_data = out_data
    with nogil:
        # start[c + 1] counts column c, then is where its next entry goes, then where it ends.
        for p in range(nnz):
            if indices[p] + 2 <= cols:
                start[indices[p] + 2] += 1
        for r in range(2, cols + 1):
            start[r] += start[r - 1]
        for r in range(rows):
            for p in range(indptr[r], indptr[r + 1]):
                at = start[indices[p] + 1]
                start[indices[p] + 1] = at + 1
                to_row[at] = <int32_t> r
                to_data[at] = data[p]
    return out_indptr, out_indices, out_data
