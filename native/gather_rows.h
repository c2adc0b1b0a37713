// Rows of several compressed sparse matrices, copied in any order into one: row i of the result is row rows[i] of
// stores[which[i]].
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "span.h"

namespace xmc {

struct StoredRows {
  Span<const int64_t> indptr;
  Span<const int32_t> indices;
  Span<const float> data;
};

inline void gathered_indptr(const std::vector<StoredRows>& stores, Span<const int32_t> which,
                            Span<const int32_t> rows, Span<int64_t> indptr) {
  indptr[0] = 0;
  for (int64_t i = 0; i < which.len; ++i) {
    const StoredRows& store = stores[which[i]];
    indptr[i + 1] = indptr[i] + store.indptr[rows[i] + 1] - store.indptr[rows[i]];
  }
}

inline void gather_rows(const std::vector<StoredRows>& stores, Span<const int32_t> which,
                        Span<const int32_t> rows, Span<const int64_t> indptr, Span<int32_t> indices,
                        Span<float> data) {
  constexpr int64_t kAhead = 8;  // rows lie anywhere: memory is asked for them before they are copied
  for (int64_t i = 0; i < which.len; ++i) {
    if (i + kAhead < which.len) {
      const StoredRows& next = stores[which[i + kAhead]];
      const int64_t at = next.indptr[rows[i + kAhead]];
      __builtin_prefetch(next.indices.ptr + at);
      __builtin_prefetch(next.data.ptr + at);
    }
    const StoredRows& store = stores[which[i]];
    const int64_t first = store.indptr[rows[i]], last = store.indptr[rows[i] + 1];
    if (first == last) continue;
    const Span<const int32_t> from = store.indices.slice(first, last);
    const Span<int32_t> to = indices.slice(indptr[i], indptr[i + 1]);
    std::memcpy(to.ptr, from.ptr, (last - first) * sizeof(int32_t));
    std::memcpy(data.slice(indptr[i], indptr[i + 1]).ptr, store.data.slice(first, last).ptr,
                (last - first) * sizeof(float));
  }
}

}  // namespace xmc
