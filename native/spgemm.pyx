"""Products of sparse matrices by rows. The arrays are checked by xmcspark.sparse before they come here."""

import numpy as np

from cython cimport floating
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool

from views cimport CsrView, Span, floats, ints, longs, read_only

cdef extern from "<atomic>" namespace "std" nogil:
    cdef cppclass atomic[T]:
        T load()

cdef extern from "spgemm.h" namespace "xmc" nogil:
    cdef cppclass Product[V]:
        CsrView A
        Span[const int64_t] indptr
        Span[const int32_t] indices
        Span[const V] data
        int64_t cols
        double shift
        cbool normalise
        int64_t max_features

    cdef cppclass ProductRows:
        Span[int64_t] nnz
        Span[int32_t] indices
        Span[float] floats
        Span[double] doubles

    cdef cppclass ProductCounts:
        atomic[int64_t] cut_rows
        atomic[int64_t] cut_entries
        atomic[cbool] overflow

    void bound_entries[V](const Product[V]& product, Span[int64_t] bounds) except +
    int64_t room_needed(Span[const int64_t] bounds) except +
    int64_t multiply[V](const Product[V]& product, Span[const int64_t] bounds, const ProductRows& out,
                        ProductCounts& counts, int threads) except +
    void normalise_rows(Span[const int64_t] indptr, Span[const float] data, Span[float] out,
                        int threads) except +


def product(const int64_t[::1] a_indptr, const int32_t[::1] a_indices, const float[::1] a_data,
            const int64_t[::1] b_indptr, const int32_t[::1] b_indices, const floating[::1] b_data,
            int64_t cols, *, double shift=0.0, bint normalise=False, int64_t max_features=-1,
            bint as_double=False, int threads=1):
    """((indptr, indices, data), (rows cut, entries cut), overflow) of the product, rows sorted.

    Reads its arrays only. Rows of A must number rows of B, columns of B must be below `cols`.
    """
    cdef int64_t rows = a_indptr.shape[0] - 1, nnz, room
    if rows == 0 or a_indices.shape[0] == 0 or b_indices.shape[0] == 0:  # nothing to point at
        empty = np.empty(0, np.int32), np.empty(0, np.float64 if as_double else np.float32)
        return (np.zeros(rows + 1, np.int64), *empty), (0, 0), False
    cdef Product[floating] p
    cdef ProductRows out
    cdef ProductCounts counts
    p.A.indptr = longs(a_indptr)
    p.A.indices = ints(a_indices)
    p.A.data = floats(a_data)
    p.indptr = read_only[int64_t](&b_indptr[0], b_indptr.shape[0])
    p.indices = read_only[int32_t](&b_indices[0], b_indices.shape[0])
    p.data = read_only(<const floating*> &b_data[0], b_data.shape[0])
    p.cols = cols
    p.shift = shift
    p.normalise = normalise
    p.max_features = max_features
    bounds = np.empty(rows + 1, np.int64)
    out_indptr = np.zeros(rows + 1, np.int64)
    cdef int64_t[::1] bounds_view = bounds, nnz_view = out_indptr
    with nogil:
        bound_entries(p, Span[int64_t](&bounds_view[0], rows + 1))
    # Room for the upper bound: pages that stay untouched cost nothing.
    room = room_needed(read_only[int64_t](&bounds_view[0], rows + 1))
    out_indices = np.empty(room, np.int32)
    out_data = np.empty(room, np.float64 if as_double else np.float32)
    cdef int32_t[::1] indices_view = out_indices
    cdef float[::1] floats_view
    cdef double[::1] doubles_view
    out.indices = Span[int32_t](&indices_view[0], room)
    out.nnz = Span[int64_t](&nnz_view[0] + 1, rows)
    if as_double:
        doubles_view = out_data
        out.doubles = Span[double](&doubles_view[0], room)
    else:
        floats_view = out_data
        out.floats = Span[float](&floats_view[0], room)
    with nogil:
        nnz = multiply(p, read_only[int64_t](&bounds_view[0], rows + 1), out, counts, threads)
    indices_view = None
    floats_view = None
    doubles_view = None
    np.cumsum(out_indptr, out=out_indptr)
    out_indices.resize(nnz, refcheck=False)
    out_data.resize(nnz, refcheck=False)
    cut = (counts.cut_rows.load(), counts.cut_entries.load())
    return (out_indptr, out_indices, out_data), cut, bool(counts.overflow.load())


def normalised(const int64_t[::1] indptr, const float[::1] data, *, int threads=1):
    """The values of the matrix with each row divided by its length. Reads its arrays only."""
    out = np.empty(data.shape[0], np.float32)
    cdef float[::1] out_view = out
    if data.shape[0]:
        with nogil:
            normalise_rows(read_only[int64_t](&indptr[0], indptr.shape[0]),
                           read_only[float](&data[0], data.shape[0]),
                           Span[float](&out_view[0], data.shape[0]), threads)
    return out
