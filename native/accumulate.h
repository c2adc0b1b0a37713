// Adding up weighted sparse rows into one sorted row, in double: by a bitmap with ranks where there are
// many terms, by merging where there are few. Neither ever touches an array as long as the row is wide
// in doubles: that array's cache misses are what the usual sparse accumulator (paper 1, section 5) costs.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd.h"
#include "span.h"

namespace xmc {

// One row times a weight. Each product is rounded to a multiple of a grid by adding and subtracting
// shift = 1.5 * 2^52 * grid, so that sums are exact in any order; shift 0 leaves it as it is.
template <class V>
struct WeightedRow {
  Span<const int32_t> indices;
  Span<const V> values;
  double weight = 1.0, shift = 0.0;

  XMC_INLINE int64_t size() const { return indices.size(); }
  XMC_INLINE double operator[](int64_t i) const {
    return (weight * (double)values[i] + shift) - shift;
  }
};

constexpr int64_t kSlack = 4;

// Any number for 0: what is done with it is thrown away.
XMC_INLINE int lowest_bit(uint64_t bits) {
  return __builtin_ctzll(bits | 1ull << 63);
}

// Appends base + i for each bit i of `bits` to `list`, whose length is n; returns the new length. Writes
// `Step` at a time whether or not there are as many: how many bits there are is anyone's guess, and a
// branch on it would be mispredicted.
template <int Step>
XMC_INLINE int64_t append_bits(uint64_t bits, int32_t base, Span<int32_t> list, int64_t n) {
  const int64_t end = n + __builtin_popcountll(bits);
  do {
    for (int i = 0; i < Step; ++i) {
      list[n + i] = base + (int32_t)lowest_bit(bits);
      bits &= bits - 1;
    }
    n += Step;
  } while (n < end);
  return end;
}

// The set of columns of one row as a bitmap of two levels, and the rank of a column in it. Reading the
// bitmap off gives the columns in order; a column's rank is where its sum goes. Takes cols / 5 bytes,
// so it stays in the second-level cache where a dense row of doubles would not.
class RankedColumns {
 public:
  void reserve(int64_t cols) {
    if (!words_.empty()) return;
    words_.assign(cols / 64 + 1, 0);
    before_.resize(cols / 64 + 1);
    summary_.assign(cols / 4096 + 1, 0);
    used_.resize(cols / 64 + 1 + kSlack);
  }

  XMC_INLINE void insert(Span<const int32_t> columns) {
    Span<uint64_t> words(words_), summary(summary_);
    for (int64_t i = 0; i < columns.size(); ++i) {
      const uint32_t c = (uint32_t)columns[i];
      words[c >> 6] |= 1ull << (c & 63);
      summary[c >> 12] |= 1ull << ((c >> 6) & 63);
    }
  }

  // The columns in increasing order; returns how many. Rank can be asked from here on. May write up to
  // kSlack entries past the last.
  XMC_INLINE int64_t read_off(Span<int32_t> columns) {
    Span<uint64_t> words(words_), summary(summary_);
    Span<uint32_t> before(before_);
    Span<int32_t> used(used_);
    int64_t n_used = 0, n = 0;
    for (int64_t s = 0; s < summary.size(); ++s) {
      n_used = append_bits<4>(summary[s], (int32_t)(s * 64), used, n_used);
      summary[s] = 0;
    }
    for (int64_t u = 0; u < n_used; ++u) {
      const int64_t w = used[u];
      before[w] = (uint32_t)n;
      n = append_bits<2>(words[w], (int32_t)(w * 64), columns, n);
    }
    return n;
  }

  template <class V>
  XMC_INLINE void add(const WeightedRow<V>& row, Span<double> sums) const {
    const Span<const uint64_t> words(words_.data(), (int64_t)words_.size());
    const Span<const uint32_t> before(before_.data(), (int64_t)before_.size());
    for (int64_t i = 0; i < row.size(); ++i) {
      const uint32_t c = (uint32_t)row.indices[i];
      const uint64_t lower = words[c >> 6] & ((1ull << (c & 63)) - 1);
      sums[before[c >> 6] + __builtin_popcountll(lower)] += row[i];
    }
  }

  // `columns` as read off: leaves the set empty for the next row.
  XMC_INLINE void clear(Span<const int32_t> columns) {
    Span<uint64_t> words(words_);
    for (int64_t i = 0; i < columns.size(); ++i) words[(uint32_t)columns[i] >> 6] = 0;
  }

 private:
  std::vector<uint64_t> words_, summary_;
  std::vector<uint32_t> before_;
  std::vector<int32_t> used_;
};

// A sorted run of (column, sum).
struct Run {
  Span<int32_t> indices;
  Span<double> sums;

  XMC_INLINE int64_t size() const { return indices.size(); }
  XMC_INLINE double operator[](int64_t i) const { return sums[i]; }
  XMC_INLINE Run from(int64_t first) const {
    return {indices.slice(first, indices.size()), sums.slice(first, sums.size())};
  }
  XMC_INLINE Run slice(int64_t from, int64_t to) const { return {indices.slice(from, to), sums.slice(from, to)}; }
};

XMC_INLINE double keep_if(bool wanted, double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  bits &= (uint64_t)0 - (uint64_t)wanted;
  std::memcpy(&x, &bits, 8);
  return x;
}

// a + b into out; returns the length. No branch depends on the data: in a merge it would be mispredicted
// at every other step.
template <class Left, class Right>
XMC_INLINE int64_t merge(const Left& a, const Right& b, Run out) {
  int64_t i = 0, j = 0, n = 0;
  while (i < a.size() && j < b.size()) {
    const int32_t ca = a.indices[i], cb = b.indices[j];
    const bool from_a = ca <= cb, from_b = cb <= ca;
    out.indices[n] = from_a ? ca : cb;
    out.sums[n] = keep_if(from_a, a[i]) + keep_if(from_b, b[j]);
    i += from_a;
    j += from_b;
    ++n;
  }
  for (; i < a.size(); ++i, ++n) {
    out.indices[n] = a.indices[i];
    out.sums[n] = a[i];
  }
  for (; j < b.size(); ++j, ++n) {
    out.indices[n] = b.indices[j];
    out.sums[n] = b[j];
  }
  return n;
}

}  // namespace xmc
