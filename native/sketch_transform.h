// Margins of all buckets as scores, the same bits as the search gives a path of one node (search.h), but a vector at a
// time: a sketch has R B of them for each row. exp and log are those of fmath.h, step by step, without branches and
// without conversions between integers and doubles, which only the widest instruction set has.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "parallel.h"
#include "search.h"
#include "simd.h"
#include "span.h"

namespace xmc {

// Rows of floats that lie `stride` apart.
struct DenseRows {
  float* first = nullptr;
  int64_t rows = 0, width = 0, stride = 0;

  Span<float> operator[](int64_t row) const {
    XMC_CHECK(row >= 0 && row < rows, "row outside its array");
    return {first + row * stride, width};
  }
};

inline bool is_identity(const ScoreForm& form) {
  return form.transform == Transform::identity && !form.exp_at_end;
}

namespace detail {

XMC_INLINE uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  return bits;
}
XMC_INLINE double of_bits(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, 8);
  return x;
}

// exact_exp(x). Adding 1.5 * 2^52 rounds to an integer, which the low bits of the sum then spell.
XMC_INLINE double branchless_exp(double given) {
  constexpr double kShifter = 6755399441055744.0;
  double x = given < -708.0 ? -708.0 : given;
  x = x > 709.0 ? 709.0 : x;
  const double shifted = x * 1.4426950408889634074 + kShifter, n = shifted - kShifter;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const double scaled = p * of_bits((bits_of(shifted) + 1023) << 52);
  return given < -708.0 ? 0.0 : scaled;
}

// exact_log(x), x > 0 and normal. The exponent becomes a double as the low bits of 2^52.
XMC_INLINE double branchless_log(double x) {
  const uint64_t bits = bits_of(x);
  const double exponent = of_bits((bits >> 52) | 0x4330000000000000ull) - (4503599627370496.0 + 1023.0);
  const double mantissa = of_bits((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  const bool above = mantissa > 1.41421356237309504880;
  const double m = above ? mantissa * 0.5 : mantissa, e = above ? exponent + 1.0 : exponent;
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 1.0 / 23.0;
  p = p * s2 + 1.0 / 21;
  p = p * s2 + 1.0 / 19;
  p = p * s2 + 1.0 / 17;
  p = p * s2 + 1.0 / 15;
  p = p * s2 + 1.0 / 13;
  p = p * s2 + 1.0 / 11;
  p = p * s2 + 1.0 / 9;
  p = p * s2 + 1.0 / 7;
  p = p * s2 + 1.0 / 5;
  p = p * s2 + 1.0 / 3;
  p = p * s2 + 1.0;
  return e * 6.93147180559945286227e-01 + 2.0 * s * p;
}

// z[i] = of(z[i]) in double. By way of a buffer: a loop over one type needs a vector for each step, one over two types
// several, more than there are registers.
template <class Function>
XMC_INLINE void each_in_double(float* z, int64_t n, Function&& of) {
  constexpr int64_t kPart = 256;
  double x[kPart];
  for (int64_t from = 0; from < n; from += kPart) {
    const int64_t size = std::min(kPart, n - from);
    for (int64_t i = 0; i < size; ++i) x[i] = (double)z[from + i];
    for (int64_t i = 0; i < size; ++i) x[i] = of(x[i]);
    for (int64_t i = 0; i < size; ++i) z[from + i] = 0.0f + (float)x[i];
  }
}

XMC_INLINE double log_sigmoid(double z) {
  const double negative = z > 0 ? -z : z;
  return (z > 0 ? 0.0 : z) - branchless_log(1.0 + branchless_exp(negative));
}

}  // namespace detail

XMC_INLINE void transform_row_body(Span<float> row, const ScoreForm& form) {
  ScoreForm logarithm = form;
  logarithm.log = true;
  const auto exp = [](double x) __attribute__((always_inline)) { return detail::branchless_exp(x); };
  if (form.transform == Transform::sigmoid)
    detail::each_in_double(row.ptr, row.size(),
                           [](double x) __attribute__((always_inline)) { return detail::log_sigmoid(x); });
  else
    detail::path_scores(row.ptr, row.size(), 0.0f, logarithm);
  // Of a logarithm that was not asked for, and once more where the search takes the logarithm back at its end.
  const bool unasked = form.transform != Transform::identity && !form.log;
  for (int times = (int)unasked + (int)form.exp_at_end; times > 0; --times)
    detail::each_in_double(row.ptr, row.size(), exp);
}
XMC_MULTIVERSION(transform_row, (Span<float> row, const ScoreForm& form), (row, form))

// Margins become scores, in place.
inline void transform_margins(const DenseRows& margins, const ScoreForm& form, int threads) {
  parallel_for(margins.rows, threads, [&](int64_t r, int) { transform_row(margins[r], form); });
}

}  // namespace xmc
