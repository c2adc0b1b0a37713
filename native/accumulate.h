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

// The terms of one row, sorted by merging the rows they come from. A term is one number, its column above
// and its place in the order of arrival below, so that no two are equal and equal columns are added in that
// order. Each run lies between two guards, so that merging needs no bounds.
class MergedTerms {
 public:
  void reserve(int64_t terms, int64_t rows) {
    for (auto& buffer : buffers_)
      if ((int64_t)buffer.size() < terms + 2 * rows) buffer.resize(terms + 2 * rows);
    if ((int64_t)products_.size() < terms) products_.resize(terms);
    runs_.clear();
    count_ = 0;
  }

  template <class V>
  XMC_INLINE void append(const WeightedRow<V>& row) {
    Span<uint64_t> terms(buffers_[0]);
    Span<double> products = Span<double>(products_).slice(count_, count_ + row.size());
    const int64_t at = count_ + 2 * (int64_t)runs_.size() + 1;
    terms[at - 1] = kBelowAll;
    for (int64_t i = 0; i < row.size(); ++i) {
      terms[at + i] = ((uint64_t)row.indices[i] + 1) << 32 | (uint64_t)(count_ + i);
      products[i] = row[i];
    }
    terms[at + row.size()] = kAboveAll;
    runs_.push_back({at, row.size()});
    count_ += row.size();
  }

  // The columns in order and their sums; returns how many there are.
  XMC_INLINE int64_t sum_up(Span<int32_t> columns, Span<double> sums) {
    const Span<const uint64_t> terms = sorted();
    const Span<const double> products(products_.data(), count_);
    std::fill(sums.begin(), sums.end(), 0.0);
    int64_t n = -1;
    uint32_t previous = 0;
    for (int64_t t = 0; t < terms.size(); ++t) {
      const uint32_t column = (uint32_t)(terms[t] >> 32);
      n += column != previous;
      columns[n] = (int32_t)(column - 1);
      sums[n] += products[(uint32_t)terms[t]];
      previous = column;
    }
    return n + 1;
  }

 private:
  static constexpr uint64_t kBelowAll = 0, kAboveAll = ~0ull;
  struct Stretch {
    int64_t at, size;
  };

  // Merges the runs two by two until one is left.
  XMC_INLINE Span<const uint64_t> sorted() {
    Span<uint64_t> source(buffers_[0]), target(buffers_[1]);
    while (runs_.size() > 1) {
      size_t merged = 0;
      int64_t at = 1;
      for (size_t r = 0; r < runs_.size(); r += 2) {
        const Stretch a = runs_[r];
        const Stretch b = r + 1 < runs_.size() ? runs_[r + 1] : Stretch{a.at + a.size, 0};
        target[at - 1] = kBelowAll;
        if (b.size) {
          merge(source, a, b, target.slice(at, at + a.size + b.size));
        } else {
          std::copy(source.begin() + a.at, source.begin() + a.at + a.size, target.begin() + at);
        }
        runs_[merged++] = {at, a.size + b.size};
        at += a.size + b.size;
        target[at] = kAboveAll;
        at += 2;
      }
      runs_.resize(merged);
      std::swap(source, target);
    }
    return source.slice(runs_[0].at, runs_[0].at + runs_[0].size);
  }

  // From both ends at once: each step of a merge waits for the one before, and no branch depends on the data,
  // where it would be mispredicted at every other step.
  XMC_INLINE static void merge(Span<const uint64_t> source, Stretch a, Stretch b, Span<uint64_t> out) {
    int64_t low_a = a.at, low_b = b.at, high_a = a.at + a.size - 1, high_b = b.at + b.size - 1;
    int64_t low = 0, high = out.size() - 1;
    while (low < high) {
      const uint64_t xa = source[low_a], xb = source[low_b], ya = source[high_a], yb = source[high_b];
      const bool x = xa < xb, y = ya > yb;
      out[low++] = x ? xa : xb;
      out[high--] = y ? ya : yb;
      low_a += x;
      low_b += !x;
      high_a -= y;
      high_b -= !y;
    }
    if (low == high) out[low] = std::min(source[low_a], source[low_b]);
  }

  std::vector<uint64_t> buffers_[2];
  std::vector<double> products_;
  std::vector<Stretch> runs_;
  int64_t count_ = 0;
};

}  // namespace xmc
