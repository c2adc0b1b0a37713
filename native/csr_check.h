// Is this compressed sparse row matrix well-formed? Three counts over flat arrays, which the compiler
// vectorises; which row is at fault is looked for only when one is.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd.h"
#include "span.h"

namespace xmc {

enum class CsrFault { none = 0, indptr = 1, range = 2, order = 3, finite = 4 };

// Row pointers start at 0, never decrease and end at nnz; `row` is the first that does not.
inline CsrFault check_row_pointers(Span<const int64_t> indptr, int64_t nnz, int64_t& row) {
  row = 0;
  const int64_t rows = indptr.size() - 1;
  if (indptr[0] != 0 || indptr[rows] != nnz) return CsrFault::indptr;
  for (; row < rows; ++row)
    if (indptr[row + 1] < indptr[row]) return CsrFault::indptr;
  return CsrFault::none;
}

struct FlatCounts {
  uint32_t largest = 0;    // column, negative ones as above 2^31
  int64_t descents = 0;    // entries not above the one before, rows run together
  int64_t not_finite = 0;  // NaN or infinite
};

template <class V>
XMC_INLINE void count_flat_body(Span<const int32_t> indices, Span<const V> data, FlatCounts& counts) {
  constexpr int64_t kBlock = 1 << 12;  // so that counts fit in 32-bit lanes
  for (int64_t from = 0; from < indices.size(); from += kBlock) {
    const int64_t size = std::min(kBlock, indices.size() - from);
    const int32_t* column = indices.slice(from, from + size).ptr;
    const V* value = data.slice(from, from + size).ptr;
    uint32_t largest = 0;
    int32_t descents = 0, not_finite = 0;
    for (int64_t i = 0; i < size; ++i) largest = std::max(largest, (uint32_t)column[i]);
    for (int64_t i = from ? 0 : 1; i < size; ++i) descents += column[i] <= column[i - 1];
    for (int64_t i = 0; i < size; ++i) not_finite += !(std::fabs(value[i]) <= std::numeric_limits<V>::max());
    counts.largest = std::max(counts.largest, largest);
    counts.descents += descents;
    counts.not_finite += not_finite;
  }
}

XMC_MULTIVERSION(count_flat, (Span<const int32_t> indices, Span<const float> data, FlatCounts& counts),
                 (indices, data, counts))
XMC_MULTIVERSION(count_flat, (Span<const int32_t> indices, Span<const double> data, FlatCounts& counts),
                 (indices, data, counts))

// The first row with a fault of its own.
template <class V>
CsrFault first_fault(Span<const int64_t> indptr, Span<const int32_t> indices, Span<const V> data, int64_t cols,
                     int64_t& row) {
  for (row = 0; row + 1 < indptr.size(); ++row) {
    int64_t previous = -1;
    for (int64_t p = indptr[row]; p < indptr[row + 1]; ++p) {
      if (indices[p] < 0 || indices[p] >= cols) return CsrFault::range;
      if (indices[p] <= previous) return CsrFault::order;
      if (!std::isfinite(data[p])) return CsrFault::finite;
      previous = indices[p];
    }
  }
  return CsrFault::none;
}

template <class V>
CsrFault check_csr(Span<const int64_t> indptr, Span<const int32_t> indices, Span<const V> data, int64_t cols,
                   int64_t& row) {
  if (check_row_pointers(indptr, indices.size(), row) != CsrFault::none) return CsrFault::indptr;
  FlatCounts counts;
  count_flat(indices, data, counts);
  // A descent is allowed between the last entry of one row and the first of the next.
  int64_t allowed = 0;
  for (int64_t r = 1; r + 1 < indptr.size(); ++r) {
    const int64_t p = indptr[r];
    if (p > 0 && p < indptr[r + 1]) allowed += indices[p] <= indices[p - 1];
  }
  const bool in_range = indices.empty() || (int64_t)counts.largest < cols;
  if (in_range && counts.descents == allowed && counts.not_finite == 0) return CsrFault::none;
  return first_fault(indptr, indices, data, cols, row);
}

// The largest |value|; 0 for none. Compared as integers, which order like the magnitudes.
XMC_INLINE void largest_magnitude_body(Span<const float> data, float& result) {
  uint32_t largest = 0;
  const float* value = data.ptr;
  for (int64_t i = 0; i < data.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, value + i, 4);
    largest = std::max(largest, bits & 0x7FFFFFFFu);
  }
  std::memcpy(&result, &largest, 4);
}
XMC_MULTIVERSION(largest_magnitude, (Span<const float> data, float& result), (data, result))

}  // namespace xmc
