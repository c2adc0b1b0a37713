// A view of an array. In a checked build (XMCSPARK_DEBUG=1) every access is bounds-checked and a
// violation surfaces in Python as IndexError; in a release build it is a bare pointer.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef XMC_CHECKED
#define XMC_CHECK(condition, what)                                                        \
  do {                                                                                    \
    if (!(condition))                                                                     \
      throw std::out_of_range(std::string(what) + " at " __FILE__ ":" +                   \
                              std::to_string(__LINE__));                                  \
  } while (0)
#else
#define XMC_CHECK(condition, what) ((void)0)
#endif

namespace xmc {

template <class T>
struct Span {
  T* ptr = nullptr;
  int64_t len = 0;

  Span() = default;
  Span(T* data, int64_t size) : ptr(data), len(size) {}
  template <class U>
  explicit Span(std::vector<U>& v) : ptr(v.data()), len((int64_t)v.size()) {}
  // A writable view reads as a read-only one.
  operator Span<const T>() const { return {ptr, len}; }

  T& operator[](int64_t i) const {
    XMC_CHECK(i >= 0 && i < len, "index " + std::to_string(i) + " of " + std::to_string(len));
    return ptr[i];
  }
  int64_t size() const { return len; }
  bool empty() const { return len == 0; }
  T* begin() const { return ptr; }
  T* end() const { return ptr + len; }
  Span slice(int64_t from, int64_t to) const {
    XMC_CHECK(0 <= from && from <= to && to <= len, "slice outside its array");
    return {ptr + from, to - from};
  }
};

// Compressed sparse rows: int64 row pointers, because nnz passes 2^31; int32 column indices. The last `width` columns may
// be dense: row after row, every value stored.
struct CsrView {
  Span<const int64_t> indptr;
  Span<const int32_t> indices;
  Span<const float> data;
  int64_t cols = 0;           // all of them
  Span<const float> dense;
  int64_t width = 0;

  int64_t rows() const { return indptr.size() - 1; }
  int64_t nnz(int64_t row) const { return indptr[row + 1] - indptr[row]; }
  Span<const int32_t> row_indices(int64_t r) const { return indices.slice(indptr[r], indptr[r + 1]); }
  Span<const float> row_data(int64_t r) const { return data.slice(indptr[r], indptr[r + 1]); }
  Span<const float> row_dense(int64_t r) const { return dense.slice(r * width, (r + 1) * width); }
};

}  // namespace xmc
