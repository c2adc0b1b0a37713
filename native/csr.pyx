"""Checks, transposition and gathering of compressed sparse rows."""

import numpy as np

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

from libcpp.vector cimport vector

from views cimport Floats, Ints, Longs, Span, floats, ints, longs, read_only

cdef extern from "csr_check.h" namespace "xmc" nogil:
    cdef enum class CsrFault:
        none

    CsrFault check_row_pointers(Span[const int64_t] indptr, int64_t nnz, int64_t& row) except +
    CsrFault check_csr[V](Span[const int64_t] indptr, Span[const int32_t] indices, Span[const V] data,
                          int64_t cols, int64_t& row) except +
    void c_largest_magnitude "xmc::largest_magnitude"(Span[const float] data, float& result) except +

cdef extern from "gather_rows.h" namespace "xmc" nogil:
    cdef cppclass StoredRows:
        Longs indptr
        Ints indices
        Floats data
    void gathered_indptr(const vector[StoredRows]& stores, Ints which, Ints rows, Span[int64_t] indptr) except +
    void c_gather_rows "xmc::gather_rows"(const vector[StoredRows]& stores, Ints which, Ints rows, Longs indptr,
                                          Span[int32_t] indices, Span[float] data) except +

_REASONS = ("", "indptr", "range", "order", "finite")


def first_bad_row(const int64_t[::1] indptr, const int32_t[::1] indices, const floating[::1] data,
                  int64_t cols):
    """(row, reason) of the first malformed row, or None.

    Reads all three arrays. Reasons: "indptr", "range", "order" (indices not strictly increasing), "finite".
    """
    cdef int64_t rows = indptr.shape[0] - 1, nnz = indices.shape[0], row = 0
    cdef int fault
    if rows < 0 or data.shape[0] != nnz:
        return 0, "indptr"
    with nogil:
        if nnz == 0:  # nothing to point at
            fault = <int> check_row_pointers(read_only[int64_t](&indptr[0], rows + 1), nnz, row)
        else:
            fault = <int> check_csr(read_only[int64_t](&indptr[0], rows + 1),
                                    read_only[int32_t](&indices[0], nnz),
                                    read_only(<const floating*> &data[0], nnz), cols, row)
    return None if fault == 0 else (row, _REASONS[fault])


def largest_magnitude(const float[::1] data):
    """The largest |value|, 0.0 for an empty array."""
    cdef float result = 0.0
    if data.shape[0]:
        with nogil:
            c_largest_magnitude(read_only[float](&data[0], data.shape[0]), result)
    return result


def transpose(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t cols):
    """(indptr, indices, data) of the transposed matrix: a counting sort by column."""
    cdef int64_t rows = indptr.shape[0] - 1, nnz = indices.shape[0], r, p, at, column
    out_indptr = np.zeros(cols + 1, np.int64)
    out_indices = np.empty(nnz, np.int32)
    out_data = np.empty(nnz, np.float32)
    cdef int64_t[::1] start = out_indptr
    cdef int32_t[::1] to_row = out_indices
    cdef float[::1] to_data = out_data
    with nogil:
        # start[c + 1] counts column c, then is where its next entry goes, then where it ends.
        for p in range(nnz):
            column = indices[p]
            if column + 2 <= cols:
                start[column + 2] += 1
        for r in range(2, cols + 1):
            start[r] += start[r - 1]
        for r in range(rows):
            for p in range(indptr[r], indptr[r + 1]):
                column = indices[p]
                at = start[column + 1]
                start[column + 1] = at + 1
                to_row[at] = <int32_t> r
                to_data[at] = data[p]
    return out_indptr, out_indices, out_data


def gather_rows(stores, const int32_t[::1] which, const int32_t[::1] rows):
    """(indptr, indices, data) whose row i is row rows[i] of stores[which[i]], each given as such three arrays. Rows must
    be there."""
    cdef vector[StoredRows] opened
    cdef StoredRows one
    for indptr, indices, data in stores:  # who calls keeps them alive
        one.indptr, one.indices, one.data = longs(indptr), ints(indices), floats(data)
        opened.push_back(one)
    cdef int64_t count = which.shape[0], nnz
    out_indptr = np.empty(count + 1, np.int64)
    cdef int64_t[::1] start = out_indptr
    cdef Ints stored_in = ints(which), numbers = ints(rows)
    gathered_indptr(opened, stored_in, numbers, Span[int64_t](&start[0], count + 1))
    nnz = start[count]
    out_indices, out_data = np.empty(nnz, np.int32), np.empty(nnz, np.float32)
    cdef int32_t[::1] to_indices = out_indices
    cdef float[::1] to_data = out_data
    cdef Longs starts = longs(start)
    if nnz:
        with nogil:
            c_gather_rows(opened, stored_in, numbers, starts, Span[int32_t](&to_indices[0], nnz),
                          Span[float](&to_data[0], nnz))
    return out_indptr, out_indices, out_data
