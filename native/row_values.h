// What becomes of the sums of one row: the largest kept, divided by the row's length, stored.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd.h"
#include "span.h"

namespace xmc {

typedef double f64x8 __attribute__((vector_size(64)));
typedef float f32x8 __attribute__((vector_size(32)));

XMC_INLINE void load(Span<const double> from, int64_t i, f64x8& x) { std::memcpy(&x, &from[i], sizeof x); }
XMC_INLINE void load(Span<const float> from, int64_t i, f64x8& x) {
  f32x8 narrow;
  std::memcpy(&narrow, &from[i], sizeof narrow);
  x = __builtin_convertvector(narrow, f64x8);
}

// Sum of squares in eight lanes, entry i in lane i mod 8, whatever the CPU: the same bits everywhere.
template <class V>
XMC_INLINE double sum_of_squares(Span<const V> values) {
  f64x8 lanes = {0, 0, 0, 0, 0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    f64x8 x;
    load(values, i, x);
    lanes += x * x;
  }
  double total = 0.0, tail = 0.0;
  for (; i < values.size(); ++i) tail += (double)values[i] * (double)values[i];
  for (int l = 0; l < 8; ++l) total += lanes[l];
  return total + tail;
}

// Keeps the `most` entries of greatest magnitude, of equal ones those with the smaller column; columns
// stay in order. Returns how many are left.
inline int64_t keep_largest(Span<int32_t> columns, Span<double> sums, int64_t most,
                            std::vector<double>& magnitudes) {
  const int64_t n = sums.size();
  if (n <= most) return n;
  magnitudes.resize(n);
  for (int64_t i = 0; i < n; ++i) magnitudes[i] = std::fabs(sums[i]);
  std::nth_element(magnitudes.begin(), magnitudes.begin() + most, magnitudes.end(), std::greater<double>());
  const double threshold = magnitudes[most];  // the greatest magnitude that is cut
  int64_t ties = most, kept = 0;
  for (int64_t i = 0; i < n; ++i) ties -= std::fabs(sums[i]) > threshold;
  for (int64_t i = 0; i < n; ++i) {
    const double m = std::fabs(sums[i]);
    if (m < threshold || (m == threshold && ties-- <= 0)) continue;
    columns[kept] = columns[i];
    sums[kept++] = sums[i];
  }
  return kept;
}

// sums * scale as V; false if one of them does not fit (V = float).
template <class V>
XMC_INLINE bool store(Span<const double> sums, double scale, Span<V> out) {
  int over = 0;
  for (int64_t i = 0; i < sums.size(); ++i) {
    out[i] = (V)(sums[i] * scale);
    over |= std::fabs(out[i]) > std::numeric_limits<V>::max();
  }
  return !over;
}

}  // namespace xmc
