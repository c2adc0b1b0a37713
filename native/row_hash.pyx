"""Hashes of rows, column by column, as Spark's `xxhash64` makes them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from views cimport Flags, Ints, Longs, Span, flags, ints, longs

cdef extern from "row_hash.h" namespace "xmc" nogil:
    void c_fold_bytes "xmc::fold_bytes"(Span[uint64_t] hashes, Longs offsets, Flags data) except +
    void c_fold_words "xmc::fold_words"(Span[uint64_t] hashes, Longs indptr, Ints words) except +


def fold_bytes(uint64_t[::1] hashes, const int64_t[::1] offsets, const uint8_t[::1] data):
    """hashes (read and written): each with the bytes of its row folded in."""
    cdef Longs at = longs(offsets)
    cdef Flags of = flags(data)
    if hashes.shape[0]:
        with nogil:
            c_fold_bytes(Span[uint64_t](&hashes[0], hashes.shape[0]), at, of)


def fold_words(uint64_t[::1] hashes, const int64_t[::1] indptr, const int32_t[::1] words):
    """hashes (read and written): each with the words of its row folded in, one after the other."""
    cdef Longs at = longs(indptr)
    cdef Ints of = ints(words)
    if hashes.shape[0]:
        with nogil:
            c_fold_words(Span[uint64_t](&hashes[0], hashes.shape[0]), at, of)
