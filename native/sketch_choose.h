// The best of many scores, without sorting them. No include guard: compiled once for each instruction set.

template <class T>
XMC_INLINE i32x16 sixteen(Span<const T> from, int64_t at) {
  typedef T lanes __attribute__((vector_size(kLanes * sizeof(T))));
  lanes found;
  std::memcpy(&found, from.slice(at, at + kLanes).ptr, sizeof found);
  return __builtin_convertvector(found, i32x16);
}

XMC_INLINE f32x16 sixteen(Span<const float> from, int64_t at) {
  f32x16 found;
  std::memcpy(&found, from.slice(at, at + kLanes).ptr, sizeof found);
  return found;
}

// All of them within bounds, and none NaN.
XMC_INLINE bool are_finite(Span<const float> scores) {
  i32x16 good = all_lanes(-1);
  int64_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    const f32x16 v = sixteen(scores, i);
    good &= (v <= kLargestScore) & (v >= -kLargestScore);
  }
  bool all = bits_of_lanes(good) == 0xFFFF;
  for (; i < scores.size(); ++i) all &= scores[i] <= kLargestScore && scores[i] >= -kLargestScore;
  return all;
}

// Integers in the order of floats, -0 and 0 being one.
XMC_INLINE i32x16 ordered(f32x16 v) {
  const i32x16 bits = (i32x16)(v + 0.0f);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

XMC_INLINE float unordered(int32_t key) {
  const int32_t bits = key ^ ((key >> 31) & 0x7FFFFFFF);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Bit l is set where lane l is at least `least`.
XMC_INLINE uint32_t reaching(f32x16 v, float least) {
#if XMC_ISA == 2
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(least), _CMP_GE_OQ);
#else
  return bits_of_lanes(v >= least);
#endif
}

XMC_INLINE int64_t count_from(Span<const Lanes> keys, int32_t least) {
  int64_t count = 0;
  for (int64_t i = 0; i < keys.size(); ++i) count += __builtin_popcount(bits_of_lanes((i32x16)keys[i].v >= least));
  return count;
}

// A key that at least `wanted` of the keys reach, by halving: the largest such, or one that at most `most` reach.
XMC_INLINE int32_t rank_key(Span<const Lanes> keys, int64_t wanted, int64_t most) {
  i32x16 least = all_lanes(INT32_MAX), top = all_lanes(INT32_MIN);
  for (int64_t i = 0; i < keys.size(); ++i) {
    const i32x16 k = (i32x16)keys[i].v;
    least = k < least ? k : least;
    top = k > top ? k : top;
  }
  int64_t low = least[0], high = top[0];
  for (int l = 1; l < kLanes; ++l) {
    low = std::min<int64_t>(low, least[l]);
    high = std::max<int64_t>(high, top[l]);
  }
  ++high;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2, count = count_from(keys, (int32_t)middle);
    (count >= wanted ? low : high) = middle;
    if (count >= wanted && count <= most) break;
  }
  return (int32_t)low;
}

// Fewer than sixteen, filled up with -infinity.
XMC_INLINE f32x16 filled_up(Span<const float> scores) {
  f32x16 v = all_lanes(-INFINITY);
  for (int64_t l = 0; l < scores.size(); ++l) v[l] = scores[l];
  return v;
}

// A bound that at least `count` of the scores reach, and hardly more: at least as many maxima of groups of them do.
XMC_INLINE float common_bound(Span<const float> scores, int64_t count, ChoiceScratch& scratch) {
  constexpr int64_t kGroup = 8;  // vectors, at most
  const int64_t vectors = scores.size() / kLanes;
  const int64_t group = std::max<int64_t>(1, std::min(kGroup, scores.size() / (4 * count)));
  const int64_t groups = vectors / group;
  scratch.keys.resize((size_t)(groups + vectors % group + 1));
  Span<Lanes> keys(scratch.keys);
  int64_t n = 0;
  for (int64_t g = 0; g < groups; ++g) {
    f32x16 top = sixteen(scores, g * group * kLanes);
    for (int64_t i = 1; i < group; ++i) top = lane_max(top, sixteen(scores, (g * group + i) * kLanes));
    keys[n++].v = (f32x16)ordered(top);
  }
  for (int64_t i = groups * group; i < vectors; ++i) keys[n++].v = (f32x16)ordered(sixteen(scores, i * kLanes));
  keys[n++].v = (f32x16)ordered(filled_up(scores.slice(vectors * kLanes, scores.size())));
  return unordered(rank_key(keys.slice(0, n), count, count + count / 4));
}

// Lists the scores from `bound` on; returns how many there are. `ahead`: as many more lie behind them and are wanted
// next.
XMC_INLINE int64_t list_reaching(Span<const float> scores, float bound, bool ahead, ChoiceScratch& scratch) {
  const int64_t vectors = scores.size() / kLanes;
  scratch.reached.resize((size_t)scores.size());
  const Span<int32_t> reached(scratch.reached);
  i32x16 largest = {};
  int64_t n = 0;
  const auto append = [&](uint64_t bits, int64_t from) __attribute__((always_inline)) {
    for (; bits; bits &= bits - 1) reached[n++] = (int32_t)(from + __builtin_ctzll(bits));
  };
  const auto look = [&](f32x16 v) __attribute__((always_inline)) {
    const i32x16 magnitude = (i32x16)v & 0x7FFFFFFF;  // in the order of |v|, with NaN above all
    largest = magnitude > largest ? magnitude : largest;
    return (uint64_t)reaching(v, bound);
  };
  int64_t i = 0;
  for (; i + 4 <= vectors; i += 4) {
    uint64_t bits = 0;
    for (int64_t j = 0; j < 4; ++j) {
      if (ahead) __builtin_prefetch(scores.end() + (i + j) * kLanes, 0, 2);
      bits |= look(sixteen(scores, (i + j) * kLanes)) << kLanes * j;
    }
    append(bits, i * kLanes);
  }
  for (; i < vectors; ++i) append(look(sixteen(scores, i * kLanes)), i * kLanes);
  for (int64_t j = vectors * kLanes; j < scores.size(); ++j)
    if (scores[j] >= bound) reached[n++] = (int32_t)j;
  const bool finite = !bits_of_lanes(largest > (i32x16)all_lanes(kLargestScore));
  if (!finite || !are_finite(scores.slice(vectors * kLanes, scores.size()))) throw NotFinite();
  return n;
}

// The `count` best of B scores, equal ones by bucket: into `buckets` in rising order. First tries the bound of the
// repetition before, in `scratch`: of one row they are much alike.
inline void choose_buckets(Span<const float> scores, int64_t count, bool ahead, ChoiceScratch& scratch,
                           Span<int32_t> buckets, Chosen& chosen) {
  int64_t n = scratch.bound > -INFINITY ? list_reaching(scores, scratch.bound, ahead, scratch) : 0;
  if (n < count || n > 4 * count) n = list_reaching(scores, common_bound(scores, count, scratch), ahead, scratch);
  const Span<const int32_t> reached(scratch.reached.data(), n);

  scratch.keys.resize((size_t)((n + kLanes - 1) / kLanes));
  const Span<Lanes> keys(scratch.keys);
  for (int64_t g = 0; g < keys.size(); ++g) {
    f32x16 v = all_lanes(-INFINITY);
    for (int64_t l = 0; l < std::min<int64_t>(kLanes, n - g * kLanes); ++l) v[l] = scores[reached[g * kLanes + l]];
    keys[g].v = (f32x16)ordered(v);
  }
  const int32_t key = rank_key(keys, count, count);
  int64_t equal = count - count_from(keys, key + 1), taken = 0;
  chosen.least = INFINITY;
  for (int64_t i = 0; i < n && taken < count; ++i) {
    const int32_t of_bucket = ((i32x16)keys[i / kLanes].v)[i % kLanes];
    if (of_bucket < key || (of_bucket == key && equal-- <= 0)) continue;
    const float score = scores[reached[i]];
    if (score <= chosen.least) chosen = {score, reached[i]};
    buckets[taken++] = reached[i];
  }
  scratch.bound = chosen.least > 0.0f ? chosen.least * 0.9f : chosen.least * 1.1f;
}
