// Operations on sixteen lanes. No include guard: included once for each instruction set, inside a namespace and
// under a target pragma (see every_isa.h), because the compiler splits vector types by the target of the function
// they stand in, before it inlines.

XMC_INLINE f32x16 all_lanes(float x) { return f32x16{} + x; }
XMC_INLINE i32x16 all_lanes(int32_t x) { return i32x16{} + x; }
XMC_INLINE f32x16 where(i32x16 mask, f32x16 yes, f32x16 no) { return mask ? yes : no; }
XMC_INLINE f32x16 lane_max(f32x16 a, f32x16 b) { return a > b ? a : b; }
XMC_INLINE f32x16 lane_min(f32x16 a, f32x16 b) { return a < b ? a : b; }

// Lane l is all ones where bit l of `bits` is set.
XMC_INLINE i32x16 lanes_of_bits(uint32_t bits) {
  const i32x16 bit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return (all_lanes((int32_t)bits) & bit) != 0;
}

// Bit l is set where lane l of `mask` (all ones or zero) is.
XMC_INLINE uint32_t bits_of_lanes(i32x16 mask) {
#if XMC_ISA == 2
  return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__x86_64__)
  uint32_t bits = 0;
  __m128i quarter[4];
  std::memcpy(quarter, &mask, sizeof quarter);
  for (int q = 0; q < 4; ++q) bits |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(quarter[q])) << 4 * q;
  return bits;
#else
  uint32_t bits = 0;
  for (int l = 0; l < kLanes; ++l) bits |= (uint32_t)(mask[l] & 1) << l;
  return bits;
#endif
}

// exp and sigmoid from additions and multiplications only (fmath.h says why).
XMC_INLINE f32x16 exp_lanes(f32x16 x) {
  x = lane_min(lane_max(x, all_lanes(-87.0f)), all_lanes(88.0f));
  const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const f32x16 n = (x * 1.44269504f + shifter) - shifter;
  const f32x16 r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  f32x16 p = all_lanes(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const i32x16 bits = (__builtin_convertvector(n, i32x16) + 127) << 23;
  return p * (f32x16)bits;
}

XMC_INLINE f32x16 sigmoid_lanes(f32x16 x) { return 1.0f / (1.0f + exp_lanes(-x)); }
