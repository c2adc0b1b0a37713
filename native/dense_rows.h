// Products and sums of dense rows. No include guard: compiled once for each instruction set (every_isa.h).
//
// Weights lie as [coordinate][16 lanes], those of a coordinate `stride` floats after those of the one before, aligned or
// not. Rows are taken a few at a time, so that weights are loaded once for all of them; the sum of a row is the same
// whichever rows stand beside it.

// One register of lanes, because the compiler keeps arrays of wider vectors in memory, and as many rows as there are
// registers for their sums.
#if XMC_ISA == 2
constexpr int kPartLanes = 16, kPartsAtOnce = 1, kRowsAtOnce = 4;
#elif XMC_ISA == 1
constexpr int kPartLanes = 8, kPartsAtOnce = 2, kRowsAtOnce = 3;
#else
constexpr int kPartLanes = 4, kPartsAtOnce = 2, kRowsAtOnce = 3;
#endif
typedef float Part __attribute__((vector_size(4 * kPartLanes)));

XMC_INLINE Part load_part(const float* from) {
  Part part;
  __builtin_memcpy(&part, from, sizeof part);
  return part;
}
XMC_INLINE void store_part(float* to, Part part) { __builtin_memcpy(to, &part, sizeof part); }

// out[m] = sum over f of x[m][f] * W[f] on the lanes of `kPartsAtOnce` parts; even and odd f apart.
template <int M>
XMC_INLINE void multiply_tile(const float* W, int64_t stride, int64_t width, const float* const* x, float* out) {
  Part even[M][kPartsAtOnce] = {}, odd[M][kPartsAtOnce] = {};
  int64_t f = 0;
  for (; f + 2 <= width; f += 2, W += 2 * stride)
    for (int c = 0; c < kPartsAtOnce; ++c) {
      const Part first = load_part(W + c * kPartLanes), second = load_part(W + stride + c * kPartLanes);
      for (int m = 0; m < M; ++m) {
        even[m][c] += first * x[m][f];
        odd[m][c] += second * x[m][f + 1];
      }
    }
  for (int c = 0; c < kPartsAtOnce; ++c)
    for (int m = 0; m < M; ++m) {
      if (f < width) even[m][c] += load_part(W + c * kPartLanes) * x[m][f];
      store_part(out + m * kLanes + c * kPartLanes, even[m][c] + odd[m][c]);
    }
}

// W[f] += sum over m of x[m][f] * delta[m], one row after the other.
template <int M>
XMC_INLINE void add_tile(float* W, int64_t stride, int64_t width, const float* const* x, const float* delta) {
  Part by[M][kPartsAtOnce];
  for (int m = 0; m < M; ++m)
    for (int c = 0; c < kPartsAtOnce; ++c) by[m][c] = load_part(delta + m * kLanes + c * kPartLanes);
  for (int64_t f = 0; f < width; ++f, W += stride)
    for (int c = 0; c < kPartsAtOnce; ++c) {
      Part w = load_part(W + c * kPartLanes);
      for (int m = 0; m < M; ++m) w += by[m][c] * x[m][f];
      store_part(W + c * kPartLanes, w);
    }
}

// out[m] = a . x[m]
template <int M>
XMC_INLINE void product_tile(const float* a, int64_t width, const float* const* x, float* out) {
  constexpr int kParts = kLanes / kPartLanes;
  Part sums[M][kParts] = {};
  int64_t f = 0;
  for (; f + kLanes <= width; f += kLanes)
    for (int c = 0; c < kParts; ++c) {
      const Part own = load_part(a + f + c * kPartLanes);
      for (int m = 0; m < M; ++m) sums[m][c] += own * load_part(x[m] + f + c * kPartLanes);
    }
  for (int m = 0; m < M; ++m) {
    float lanes[kLanes];
    for (int c = 0; c < kParts; ++c) store_part(lanes + c * kPartLanes, sums[m][c]);
    for (int64_t g = f; g < width; ++g) lanes[g - f] += a[g] * x[m][g];
    for (int half = kLanes / 2; half; half /= 2)
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    out[m] = lanes[0];
  }
}

template <int M>
struct Rows {
  static constexpr int count = M;
};

// Calls tile(Rows<M>(), first) for tiles of M rows that make up all of them.
template <class Tile>
XMC_INLINE void each_tile(int rows, Tile&& tile) {
  int m = 0;
  for (; m + kRowsAtOnce <= rows; m += kRowsAtOnce) tile(Rows<kRowsAtOnce>(), m);
  switch (rows - m) {
    case 1: return tile(Rows<1>(), m);
    case 2: return tile(Rows<2>(), m);
    case 3: return tile(Rows<3>(), m);
  }
}

// out[m][16] = sum over f of x[m][f] * W[f]
inline void multiply_rows(const float* W, int64_t stride, int64_t width, int rows, const float* const* x, float* out) {
  each_tile(rows, [&](auto tile, int m) {
    for (int l = 0; l < kLanes; l += kPartsAtOnce * kPartLanes)
      multiply_tile<decltype(tile)::count>(W + l, stride, width, x + m, out + m * kLanes + l);
  });
}

// W[f] += sum over m of x[m][f] * delta[m][16]
inline void add_rows(float* W, int64_t stride, int64_t width, int rows, const float* const* x, const float* delta) {
  each_tile(rows, [&](auto tile, int m) {
    for (int l = 0; l < kLanes; l += kPartsAtOnce * kPartLanes)
      add_tile<decltype(tile)::count>(W + l, stride, width, x + m, delta + m * kLanes + l);
  });
}

// out[m] = a . x[m]
inline void row_products(const float* a, int64_t width, int rows, const float* const* x, float* out) {
  each_tile(rows, [&](auto tile, int m) { product_tile<decltype(tile)::count>(a, width, x + m, out + m); });
}
