// Recovery's inner loops. No include guard: compiled once for each instruction set (every_isa.h). Lanes are sixteen
// labels, or sixteen buckets; what a label's score is added up of, and in which order, is the same everywhere.
#include "lane_ops.h"
#include "sketch_choose.h"

typedef uint64_t u64x8 __attribute__((vector_size(64)));

// Of the low halves.
XMC_INLINE u64x8 products(u64x8 x, u64x8 y) {
#if XMC_ISA == 2
  return (u64x8)_mm512_maskz_mul_epu32(0xFF, (__m512i)x, (__m512i)y);
#elif XMC_ISA == 1
  __m256i a[2], b[2];
  std::memcpy(a, &x, sizeof a);
  std::memcpy(b, &y, sizeof b);
  for (int h = 0; h < 2; ++h) a[h] = _mm256_mul_epu32(a[h], b[h]);
  std::memcpy(&x, a, sizeof a);
  return x;
#else
  for (int l = 0; l < 8; ++l) x[l] = (x[l] & 0xFFFFFFFFu) * (y[l] & 0xFFFFFFFFu);
  return x;
#endif
}

// BucketHash, of eight labels.
XMC_INLINE u64x8 buckets_of(const BucketHash& h, u64x8 labels) {
  const u64x8 zero = {}, prime = zero + kHashPrime;
  const u64x8 t = products(labels, zero + h.a) + h.b;
  const u64x8 folded = (t & prime) + (t >> 31);
  const u64x8 x = (folded + ((folded + 1) >> 31)) & prime;
  return x - products(products(x, zero + h.multiplier) >> h.shift, zero + h.buckets);
}

XMC_INLINE i32x16 buckets_of(const BucketHash& h, i32x16 labels) {
  const u64x8 pairs = (u64x8)labels;
  return (i32x16)(buckets_of(h, pairs & 0xFFFFFFFFu) | buckets_of(h, pairs >> 32) << 32);
}

XMC_INLINE f32x16 gathered(Span<const float> from, i32x16 at) {
#if XMC_ISA == 2 && !defined(XMC_CHECKED)
  return (f32x16)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, (__m512i)at, from.ptr, 4);
#elif XMC_ISA == 1 && !defined(XMC_CHECKED)
  __m256i half[2];
  __m256 found[2];
  std::memcpy(half, &at, sizeof half);
  for (int h = 0; h < 2; ++h) found[h] = _mm256_i32gather_ps(from.ptr, half[h], 4);
  f32x16 lanes;
  std::memcpy(&lanes, found, sizeof lanes);
  return lanes;
#else
  f32x16 found;
  for (int l = 0; l < kLanes; ++l) found[l] = from[at[l]];
  return found;
#endif
}

inline void check_finite(Span<const float> scores, bool& finite) { finite = are_finite(scores); }

// The score that R values of a label make. Reorders them.
XMC_INLINE f32x16 joined(const ScoreRule& rule, Span<Lanes> values) {
  const int64_t n = values.size();
  f32x16 result = f32x16{};
  switch (rule.aggregate) {
    case Aggregate::min:
      result = all_lanes(INFINITY);
      for (int64_t r = 0; r < n; ++r) result = lane_min(result, values[r].v);
      return result;
    case Aggregate::median:
      for (const Exchange& e : rule.network) {
        const f32x16 low = values[e.low].v, high = values[e.high].v;
        values[e.low].v = lane_min(low, high);
        values[e.high].v = lane_max(low, high);
      }
      return n % 2 ? values[n / 2].v : (values[n / 2 - 1].v + values[n / 2].v) * 0.5f;
    default:
      for (int64_t r = 0; r < n; ++r) result += values[r].v;
      return rule.of_sum(result);
  }
}

// Scores of the labels of a block whose buckets are `cells` [R][width], width a multiple of 16. Repetition by
// repetition: so the B scores that are looked up stay in the first-level cache.
template <class Bucket>
void block_scores(const ScoreRule& rule, Span<const float> row, Span<const Bucket> cells, Span<Lanes> values,
                  Span<Lanes> scores) {
  const int64_t repetitions = rule.repetitions, buckets = row.size() / repetitions;
  const int64_t width = cells.size() / repetitions, vectors = width / kLanes;
  if (rule.aggregate == Aggregate::median) {
    for (int64_t i = 0; i < vectors; ++i) {
      for (int64_t r = 0; r < repetitions; ++r)
        values[r].v = gathered(row.slice(r * buckets, (r + 1) * buckets), sixteen(cells, r * width + i * kLanes));
      scores[i].v = joined(rule, values);
    }
    return;
  }
  const f32x16 start = all_lanes(rule.summed() ? 0.0f : INFINITY);
  for (int64_t i = 0; i < vectors; ++i) scores[i].v = start;
  for (int64_t r = 0; r < repetitions; ++r) {
    const Span<const float> from = row.slice(r * buckets, (r + 1) * buckets);
    const Span<const Bucket> at = cells.slice(r * width, (r + 1) * width);
    if (rule.summed())
      for (int64_t i = 0; i < vectors; ++i) scores[i].v += gathered(from, sixteen(at, i * kLanes));
    else
      for (int64_t i = 0; i < vectors; ++i)
        scores[i].v = lane_min(scores[i].v, gathered(from, sixteen(at, i * kLanes)));
  }
  if (rule.summed())
    for (int64_t i = 0; i < vectors; ++i) scores[i].v = rule.of_sum(scores[i].v);
}

// Offers the first `count` of these scores, of the places from `first` on. Places are offered in rising order, so an
// equal score comes too late.
inline void offer_block(Span<const Lanes> scores, int64_t first, int64_t count, BestLabels& best) {
  for (int64_t from = 0; from < count; from += kLanes) {
    const f32x16 v = scores[from / kLanes].v;
    uint32_t bits = bits_of_lanes(v > best.floor());
    if (count - from < kLanes) bits &= (1u << (count - from)) - 1;
    for (; bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      if (v[lane] > best.floor()) best.offer({v[lane], (int32_t)(first + from + lane), 0});
    }
  }
}

// Scores of sixteen labels whose buckets are computed, and how often each is among the chosen ones.
XMC_INLINE f32x16 label_scores(const RowChoice& choice, i32x16 labels, Span<Lanes> values, i32x16& hits) {
  const int64_t repetitions = choice.rule->repetitions, buckets = choice.row.size() / repetitions;
  hits = i32x16{};
  for (int64_t r = 0; r < repetitions; ++r) {
    const i32x16 at = buckets_of(choice.hashes[r], labels);
    const f32x16 v = gathered(choice.row.slice(r * buckets, (r + 1) * buckets), at);
    const Chosen& chosen = choice.chosen[r];
    hits -= (v > chosen.least) | ((v == chosen.least) & (at <= chosen.last));
    values[r].v = v;
  }
  if (!is_identity(*choice.form))
    transform_row(Span<float>((float*)values.ptr, repetitions * kLanes), *choice.form);
  return joined(*choice.rule, values);
}

// Scores the labels at `places`; offers those that were found at least `enough` times, or all with their level.
inline void offer_places(const RowChoice& choice, Span<const int32_t> labels, Span<const int32_t> places,
                         int32_t enough, bool all, Span<Lanes> values, BestLabels& best) {
  for (int64_t from = 0; from < places.size(); from += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, places.size() - from);
    i32x16 ids = {}, hits;
    for (int64_t l = 0; l < count; ++l) ids[l] = labels[places[from + l]];
    const f32x16 scores = label_scores(choice, ids, values, hits);
    uint32_t bits = bits_of_lanes(all ? all_lanes(-1) : (hits >= enough) & (scores >= best.floor()));
    bits &= (uint32_t)((1ull << count) - 1);
    for (; bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      best.offer({scores[lane], places[from + lane], std::min(hits[lane], enough)});
    }
  }
}

// The largest number of each chunk.
inline void chunk_maxima(Span<const uint16_t> numbers, int64_t chunk, Span<uint16_t> maxima) {
  for (int64_t c = 0; c < maxima.size(); ++c) {
    const Span<const uint16_t> part = numbers.slice(c * chunk, std::min(numbers.size(), (c + 1) * chunk));
    uint16_t top = 0;
    for (int64_t i = 0; i < part.size(); ++i) top = std::max(top, part.ptr[i]);
    maxima[c] = top;
  }
}

inline void count_reaching(Span<const uint16_t> numbers, int32_t least, int64_t& count) {
  int32_t reaching = 0;
  for (int64_t i = 0; i < numbers.size(); ++i) reaching += numbers.ptr[i] >= least;
  count = reaching;
}

// Appends first + i for each number i in [from, to).
inline void append_places(Span<const uint16_t> numbers, int32_t from, int32_t to, int32_t first,
                          std::vector<int32_t>& places) {
  for (int64_t i = 0; i < numbers.size(); i += kLanes) {
    const i32x16 v = sixteen(numbers, i);
    for (uint32_t bits = bits_of_lanes((v >= from) & (v < to)); bits; bits &= bits - 1)
      places.push_back(first + (int32_t)i + __builtin_ctz(bits));
  }
}
