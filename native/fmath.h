// exp and log from additions, multiplications and divisions only: libm's differ between CPUs and
// versions in the last bit, and the answer must not (docs/architecture.md, "Same answer everywhere").
// Relative error below 1e-15 over the range used here.
#pragma once
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace xmc {

XMC_INLINE double exact_exp(double x) {
  if (x < -708.0) return 0.0;
  if (x > 709.0) x = 709.0;
  // x = n ln2 + r, |r| <= ln2 / 2; the two-part ln2 keeps r exact.
  const double shifter = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double n = (x * 1.4426950408889634074 + shifter) - shifter;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  constexpr double inverse_factorial[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                          1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                          1.0 / 24,        1.0 / 6,        0.5,           1.0,
                                          1.0};
  for (double c : inverse_factorial) p = p * r + c;
  const uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, 8);
  return p * scale;
}

// For x > 0 and normal.
XMC_INLINE double exact_log(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  int64_t exponent = (int64_t)(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double m;
  std::memcpy(&m, &bits, 8);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh(s), |s| < 0.172
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 1; k -= 2) p = p * s2 + 1.0 / k;
  return exponent * 6.93147180559945286227e-01 + 2.0 * s * p;
}

}  // namespace xmc
