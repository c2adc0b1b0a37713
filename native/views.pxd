# The views of span.h, and typed memoryviews and Csr objects as read-only ones.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef extern from "span.h" namespace "xmc" nogil:
    cdef cppclass Span[T]:
        T* ptr
        int64_t len
        Span()
        Span(T* data, int64_t size)
    cdef cppclass Floats "xmc::Span<const float>":
        Floats()
        Floats(const float* data, int64_t size)
    cdef cppclass Ints "xmc::Span<const int32_t>":
        Ints()
        Ints(const int32_t* data, int64_t size)
    cdef cppclass Longs "xmc::Span<const int64_t>":
        Longs()
        Longs(const int64_t* data, int64_t size)
    cdef cppclass Seeds "xmc::Span<const uint64_t>":
        Seeds()
        Seeds(const uint64_t* data, int64_t size)
    cdef cppclass Flags "xmc::Span<const uint8_t>":
        Flags()
        Flags(const uint8_t* data, int64_t size)
    cdef cppclass CsrView:
        Longs indptr
        Ints indices
        Floats data, dense
        int64_t cols, width


cdef extern from "read_only.h" namespace "xmc" nogil:
    Span[const T] read_only[T](const T* data, int64_t size)


cdef inline Floats floats(const float[::1] a) noexcept:
    return Floats(&a[0], a.shape[0]) if a.shape[0] else Floats()


cdef inline Ints ints(const int32_t[::1] a) noexcept:
    return Ints(&a[0], a.shape[0]) if a.shape[0] else Ints()


cdef inline Longs longs(const int64_t[::1] a) noexcept:
    return Longs(&a[0], a.shape[0]) if a.shape[0] else Longs()


cdef inline Seeds seeds(const uint64_t[::1] a) noexcept:
    return Seeds(&a[0], a.shape[0]) if a.shape[0] else Seeds()


cdef inline Flags flags(const uint8_t[::1] a) noexcept:
    return Flags(&a[0], a.shape[0]) if a.shape[0] else Flags()


cdef inline CsrView csr_view(matrix) except *:
    """The arrays of a Csr; None is a matrix without rows. The Csr must outlive the view."""
    cdef CsrView view
    if matrix is not None:
        view.indptr = longs(matrix.indptr)
        view.indices = ints(matrix.indices)
        view.data = floats(matrix.data)
        view.cols = matrix.shape[1]
        if matrix.dense is not None:
            view.dense = floats(matrix.dense.reshape(-1))
            view.width = matrix.dense.shape[1]
    return view
