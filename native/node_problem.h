// The training rows of one tree node, cut out of X and made compact.
//
// All children of a node share the same rows (paper 1, eq. 6), so this is built once a node. Features are
// renumbered in order of first appearance, which puts frequent ones close together. A feature that occurs in
// one row only needs no weight of its own while solving: its weight is that row's dual variable times its
// value, so such features are folded into one number per row and written out at the end. Dense columns are read where
// they are.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "huge_pages.h"
#include "span.h"
#include "zeroed_slots.h"

namespace xmc {

struct Entry {
  int32_t feature;
  float value;
};

struct NodeProblem {
  std::vector<int64_t> start;        // [rows + 1] into shared
  std::vector<Entry> shared;         // compact feature, value; may be longer than start says
  std::vector<int64_t> single_start; // [rows + 1] into singles
  std::vector<Entry> singles;        // feature of X that no other row of the node has, value
  std::vector<float> single_norm2;   // [rows] sum of squares of the row's singles
  std::vector<float> norm2;          // [rows] sum of squares of the whole row
  std::vector<int32_t> features;     // compact feature -> feature of X
  Span<const int32_t> row_of_X;      // [rows]
  Span<const float> dense;           // of X, all rows
  int64_t width = 0;

  Span<const float> dense_row(int64_t row) const {
    const int64_t first = row_of_X[row] * width;
    return dense.slice(first, first + width);
  }
  int64_t rows() const { return (int64_t)norm2.size(); }
};

// Scratch of one thread, at least as long as X has columns; all zero between uses.
struct FeatureMap {
  std::vector<int32_t> slot;
  explicit FeatureMap(int64_t cols) : slot(ZeroedSlots::take((size_t)cols)) {}
  FeatureMap(const FeatureMap&) = delete;
  FeatureMap& operator=(const FeatureMap&) = delete;
  ~FeatureMap() {
    if (!std::uncaught_exceptions()) ZeroedSlots::give_back(std::move(slot));  // else it may not be zero
  }
  // slot[features[i]] = i + 1
  void set(const std::vector<int32_t>& features) {
    for (size_t i = 0; i < features.size(); ++i) slot[features[i]] = (int32_t)i + 1;
  }
  void clear(const std::vector<int32_t>& features) {
    for (int32_t f : features) slot[f] = 0;
  }
};

namespace detail {

// Fetches ahead of row r: the slots of the next one's features, and the features of one that comes later.
inline void look_ahead(const CsrView& X, Span<const int32_t> rows, int64_t r, const std::vector<int32_t>& slot,
                       bool values) {
  constexpr int64_t kRowsAhead = 6, kEntriesPerLine = 16;
  if (r + kRowsAhead < rows.size()) {
    const int64_t from = X.indptr[rows[r + kRowsAhead]], to = X.indptr[rows[r + kRowsAhead] + 1];
    for (int64_t p = from; p < to; p += kEntriesPerLine) {
      __builtin_prefetch(X.indices.ptr + p);
      if (values) __builtin_prefetch(X.data.ptr + p);
    }
  }
  if (r + 1 >= rows.size()) return;
  for (int32_t f : X.row_indices(rows[r + 1])) __builtin_prefetch(&slot[f], 1);
}

// Marks each feature of the rows: -1 seen once, -2 seen more often (or `fold_singles` is off).
inline int64_t count_features(const CsrView& X, Span<const int32_t> rows, bool fold_singles, Span<int32_t> slot,
                              const std::vector<int32_t>& slots) {
  int64_t nnz = 0;
  for (int64_t r = 0; r < rows.size(); ++r) {
    look_ahead(X, rows, r, slots, false);
    const auto indices = X.row_indices(rows[r]);
    nnz += indices.size();
    for (int32_t f : indices) slot[f] = slot[f] == 0 && fold_singles ? -1 : -2;
  }
  if (nnz > (int64_t)UINT32_MAX)
    throw std::overflow_error("one tree node has " + std::to_string(nnz) +
                              " feature values; at most 2^32 are supported: give fewer rows");
  return nnz;
}

inline double squared_length(Span<const float> row) {
  double sums[8] = {};
  for (int64_t f = 0; f < row.size(); ++f) sums[f % 8] += (double)row[f] * row[f];
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace detail

// `fold_singles` = false keeps every feature as a shared one (a warm start needs their weights).
inline void build_node_problem(const CsrView& X, Span<const int32_t> rows, bool fold_singles, FeatureMap& map,
                               NodeProblem& out) {
  const int64_t n = rows.size();
  Span<int32_t> slot(map.slot);
  const int64_t nnz = detail::count_features(X, rows, fold_singles, slot, map.slot);
  out.start.resize(n + 1);
  out.single_start.resize(n + 1);
  out.norm2.resize(n);
  out.single_norm2.resize(n);
  if ((int64_t)out.shared.size() < nnz) {
    out.shared.clear();
    out.shared.reserve(nnz);
    advise_huge_pages(out.shared.data(), (size_t)nnz * sizeof(Entry));
    out.shared.resize(nnz);
  }
  out.singles.clear();
  out.features.clear();
  out.row_of_X = rows;
  out.dense = X.dense;
  out.width = X.width;
  Span<Entry> shared(out.shared);
  int64_t at = 0;
  for (int64_t r = 0; r < n; ++r) {
    detail::look_ahead(X, rows, r, map.slot, true);
    out.start[r] = at;
    out.single_start[r] = (int64_t)out.singles.size();
    const auto indices = X.row_indices(rows[r]);
    const auto values = X.row_data(rows[r]);
    double whole = X.width ? detail::squared_length(X.row_dense(rows[r])) : 0, alone = 0;
    for (int64_t p = 0; p < indices.size(); ++p) {
      const int32_t f = indices[p];
      const float x = values[p];
      int32_t& s = slot[f];
      whole += (double)x * x;
      if (s == -1) {
        out.singles.push_back({f, x});
        alone += (double)x * x;
        s = 0;
        continue;
      }
      if (s == -2) {
        out.features.push_back(f);
        s = (int32_t)out.features.size();
      }
      shared[at++] = {s - 1, x};
    }
    out.norm2[r] = (float)whole;
    out.single_norm2[r] = (float)alone;
  }
  out.start[n] = at;
  out.single_start[n] = (int64_t)out.singles.size();
  map.clear(out.features);
}

}  // namespace xmc
