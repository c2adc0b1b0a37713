// Fast recovery: labels that are in the best buckets of some repetitions, by an index from buckets to labels.
//
// Of each repetition the `top_buckets` best buckets are chosen, and the answer is the best k of those labels that are
// in chosen buckets of at least `min_count` repetitions. Not all of these have to be scored. Where scores are sums,
// each visit adds to the label by how much its bucket is above the least chosen one, rounded up to a unit of 16 bits:
// the score cannot be more than the sum of the least chosen ones and what the label has gathered. Where they are not,
// visits are counted: the minimum of a label that was not visited in all repetitions, and the median of one that was
// visited in fewer than half, are no more than the largest of the least chosen ones. So the labels that gathered most
// are scored first, and then only those that could still be better than the k best of them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "parallel.h"
#include "sketch_kernels.h"
#include "sketch_pool.h"
#include "text_memory.h"

namespace xmc {

struct FastSettings {
  int64_t top_buckets = 1;
  int32_t min_count = 1;
};

// Labels of a block: what they gather stays in the second-level cache.
constexpr int64_t kIndexBlock = 1 << 20;

// From each bucket of each repetition to the labels of a block: their places, counted from the block's first.
struct BlockIndex {
  int64_t first = 0, size = 0, buckets = 0;
  Buffer<uint32_t> starts;  // [R][B + 1], into a repetition's places
  Buffer<int32_t> places;   // [R][size]

  Span<const uint32_t> starts_of(int64_t r) const {
    return span_of(starts).slice(r * (buckets + 1), (r + 1) * (buckets + 1));
  }
  Span<const int32_t> places_of(int64_t r) const { return span_of(places).slice(r * size, (r + 1) * size); }

  // A counting sort of the labels, so that places of a bucket rise.
  void sort_by_bucket(int64_t r, const BucketHash& hash, Span<const int32_t> labels) {
    std::vector<int32_t> bucket_of((size_t)size);
    hash_labels(hash, labels, span_of(bucket_of));
    const Span<uint32_t> from = span_of(starts).slice(r * (buckets + 1), (r + 1) * (buckets + 1));
    const Span<int32_t> to = span_of(places).slice(r * size, (r + 1) * size);
    std::fill(from.begin(), from.end(), 0u);
    // from[b + 1] is where the next label of bucket b goes, and at last where the bucket ends.
    for (int64_t i = 0; i < size; ++i)
      if (bucket_of[i] + 2 <= buckets) ++from[bucket_of[i] + 2];
    for (int64_t b = 2; b <= buckets; ++b) from[b] += from[b - 1];
    for (int64_t i = 0; i < size; ++i) to[from[bucket_of[i] + 1]++] = (int32_t)i;
  }
};

// What is known of the score of a label by what it gathered.
struct GatheredBound {
  double base = 0.0, unit = 1.0;  // its sum is at most base + gathered * unit
  int32_t full = 0;               // if it is no sum: with fewer visits than this
  float ceiling = 0.0f;           // it is at most so much

  bool allows(const ScoreRule& rule, int32_t gathered, float score) const {
    if (!rule.summed()) return gathered >= full || ceiling >= score;
    const float sum = (float)(base + gathered * unit);
    return rule.of_sum(std::nextafter(sum, INFINITY)) >= score;
  }
};

// Labels of a chosen bucket, and what they gain.
struct Visit {
  Span<const int32_t> places;
  uint16_t gain;
};

struct FastScratch {
  std::vector<int32_t> buckets;  // [R][top_buckets], chosen
  std::vector<float> scores;     // theirs
  std::vector<double> least;     // [R], of these
  std::vector<uint16_t> gains;   // what they are worth
  std::vector<Chosen> chosen;    // [R]
  std::vector<Visit> visits;
  std::vector<uint16_t> gathered;  // by each label of a block; zero between blocks
  std::vector<uint16_t> maxima;    // of chunks of `gathered`
  std::vector<int32_t> places;
  std::vector<Lanes> values;
  ChoiceScratch choice;
  BestLabels best;
};

class LabelIndex {
 public:
  // `labels`: increasing, and outlive this.
  LabelIndex(Span<const int32_t> labels, std::vector<BucketHash> hashes, int64_t buckets, int threads)
      : labels_(labels), hashes_(std::move(hashes)), buckets_(buckets) {
    blocks_.resize((size_t)((size() + kIndexBlock - 1) / kIndexBlock));
    for (size_t b = 0; b < blocks_.size(); ++b) {
      BlockIndex& block = blocks_[b];
      block.first = (int64_t)b * kIndexBlock;
      block.size = std::min(kIndexBlock, size() - block.first);
      block.buckets = buckets;
      block.starts.resize((size_t)(repetitions() * (buckets + 1)));
      block.places.resize((size_t)(repetitions() * block.size));
    }
    parallel_for((int64_t)blocks_.size() * repetitions(), threads, [&](int64_t i, int) {
      BlockIndex& block = blocks_[(size_t)(i / repetitions())];
      const int64_t r = i % repetitions();
      block.sort_by_bucket(r, hashes_[r], labels_.slice(block.first, block.first + block.size));
    });
  }

  int64_t bytes() const {
    size_t total = 0;
    for (const BlockIndex& block : blocks_) total += block.starts.size() * 4 + block.places.size() * 4;
    return (int64_t)total;
  }

  void recover(const BucketScores& given, const ScoreForm& form, const ScoreRule& rule, const FastSettings& settings,
               int threads, const RankedRows& out) const {
    parallel_for(given.rows(), threads, [&](int64_t row, int) {
      const auto scratch = pool_.take();
      recover_row(given.row(row), form, rule, settings, *scratch, out.k);
      out.write(row, labels_, (*scratch).best);
    });
  }

 private:
  static constexpr int64_t kLongestChunk = 512, kChunksPerLabel = 8;  // of k
  static constexpr int64_t kAhead = 8;                                // lists of places that are asked for early
  static constexpr int32_t kBeyond = UINT16_MAX + 1;

  int64_t size() const { return labels_.size(); }
  int64_t repetitions() const { return (int64_t)hashes_.size(); }

  void recover_row(Span<const float> row, const ScoreForm& form, const ScoreRule& rule, const FastSettings& settings,
                   FastScratch& scratch, int64_t k) const {
    const int64_t top = std::min(settings.top_buckets, buckets_);
    choose(row, top, scratch);
    const GatheredBound bound = rule.summed() ? weighted(row, top, form, scratch) : counted(form, rule, scratch);
    const RowChoice choice{row, span_of(hashes_), span_of(scratch.chosen), &rule, &form};
    scratch.values.resize((size_t)repetitions());
    scratch.best.reset(k);
    for (const BlockIndex& block : blocks_) {
      const int64_t chunk = gather(block, top, k, scratch);
      offer_by_bound(choice, block, settings.min_count, chunk, k, bound, scratch);
      clear(scratch);
    }
    scratch.best.cut();
    if (scratch.best.size() < std::min(k, size())) offer_more(choice, settings.min_count, top, k, scratch);
  }

  void choose(Span<const float> row, int64_t top, FastScratch& scratch) const {
    scratch.buckets.resize((size_t)(repetitions() * top));
    scratch.chosen.resize((size_t)repetitions());
    scratch.choice.bound = -INFINITY;
    for (int64_t r = 0; r < repetitions(); ++r) {
      const Span<int32_t> to = span_of(scratch.buckets).slice(r * top, (r + 1) * top);
      const Span<const float> of = row.slice(r * buckets_, (r + 1) * buckets_);
      XMC_ON_THIS_CPU(choose_buckets(of, top, r + 1 < repetitions(), scratch.choice, to, scratch.chosen[r]));
      if (!blocks_.empty())
        for (const int32_t bucket : to) __builtin_prefetch(&blocks_[0].starts_of(r)[bucket]);
    }
  }

  // Every visit counts the same.
  GatheredBound counted(const ScoreForm& form, const ScoreRule& rule, FastScratch& scratch) const {
    scratch.gains.assign(scratch.buckets.size(), 1);
    scratch.scores.clear();
    for (const Chosen& chosen : scratch.chosen) scratch.scores.push_back(chosen.least);
    if (!is_identity(form)) transform_row(span_of(scratch.scores), form);
    GatheredBound bound;
    bound.full = (int32_t)(rule.aggregate == Aggregate::min ? repetitions() : (repetitions() + 1) / 2);
    const float largest = *std::max_element(scratch.scores.begin(), scratch.scores.end());
    bound.ceiling = largest + std::fabs(largest) * 1e-6f;  // probabilities are rounded
    return bound;
  }

  // A visit is worth what its bucket is above the least chosen one of the repetition. The unit is such that a label in
  // every best bucket just fits in 16 bits.
  GatheredBound weighted(Span<const float> row, int64_t top, const ScoreForm& form, FastScratch& scratch) const {
    scratch.scores.resize(scratch.buckets.size());
    scratch.gains.resize(scratch.buckets.size());
    const Span<float> scores = span_of(scratch.scores);
    for (int64_t r = 0, j = 0; r < repetitions(); ++r)
      for (int64_t i = 0; i < top; ++i, ++j) scores[j] = row[r * buckets_ + scratch.buckets[j]];
    if (!is_identity(form)) transform_row(scores, form);
    GatheredBound bound;
    double spread = 0.0, magnitude = 0.0;
    scratch.least.clear();
    for (int64_t r = 0; r < repetitions(); ++r) {
      const auto [low, high] = std::minmax_element(scores.begin() + r * top, scores.begin() + (r + 1) * top);
      const double least = *low, most = *high;
      scratch.least.push_back(least);
      bound.base += least;
      spread += most - least;
      magnitude += std::max(std::fabs(least), std::fabs(most));
    }
    if (spread > 0.0) bound.unit = spread / (double)(UINT16_MAX - 1 - repetitions());
    for (int64_t r = 0, j = 0; r < repetitions(); ++r)
      for (int64_t i = 0; i < top; ++i, ++j)
        scratch.gains[j] = (uint16_t)(1 + (int32_t)((scores[j] - scratch.least[r]) / bound.unit));
    // Sums are rounded R times, and probabilities once: by half of 2^-23 of the magnitudes each time.
    bound.base += magnitude * (double)(repetitions() + 2) * 1.2e-7;
    return bound;
  }

  // What each label of the block gathers, and the largest of each chunk; returns the size of a chunk. There are at
  // least 8 k of these in a large block, so that few labels are scored for the first bound.
  int64_t gather(const BlockIndex& block, int64_t top, int64_t k, FastScratch& scratch) const {
    const int64_t wanted = block.size / (kChunksPerLabel * k) / kLanes * kLanes;
    const int64_t chunk = std::max<int64_t>(2 * kLanes, std::min(kLongestChunk, wanted));
    scratch.gathered.resize((size_t)((block.size + chunk - 1) / chunk * chunk), 0);
    list_visits(block, top, scratch);
    const Span<const Visit> visits = span_of(scratch.visits);
    const Span<uint16_t> gathered = span_of(scratch.gathered);
    for (int64_t v = 0; v < visits.size(); ++v) {
      if (v + kAhead < visits.size()) {
        const Span<const int32_t> later = visits[v + kAhead].places;
        for (int64_t p = 0; p < later.size(); p += 16) __builtin_prefetch(later.ptr + p);
      }
      const Span<const int32_t> places = visits[v].places;
      const uint16_t gain = visits[v].gain;
      for (int64_t i = 0; i < places.size(); ++i) gathered[places[i]] += gain;
    }
    scratch.maxima.resize(scratch.gathered.size() / (size_t)chunk);
    XMC_ON_THIS_CPU(chunk_maxima(gathered, chunk, span_of(scratch.maxima)));
    return chunk;
  }

  void list_visits(const BlockIndex& block, int64_t top, FastScratch& scratch) const {
    const Span<const int32_t> buckets = span_of(scratch.buckets);
    scratch.visits.clear();
    for (int64_t r = 0; r < repetitions(); ++r) {
      const Span<const uint32_t> starts = block.starts_of(r);
      const Span<const int32_t> places = block.places_of(r);
      for (int64_t j = r * top; j < (r + 1) * top; ++j) {
        const int64_t from = starts[buckets[j]], to = starts[buckets[j] + 1];
        if (from < to) scratch.visits.push_back({places.slice(from, to), scratch.gains[j]});
      }
    }
  }

  static void clear(FastScratch& scratch) {
    std::memset(scratch.gathered.data(), 0, scratch.gathered.size() * sizeof(uint16_t));
  }

  // Scores labels that gathered from `least` to below `top`, and offers those that were found `enough` times, or all.
  void offer(const RowChoice& choice, const BlockIndex& block, int32_t least, int32_t top, int32_t enough,
             int64_t chunk, FastScratch& scratch, bool all = false) const {
    scratch.places.clear();
    const Span<const uint16_t> gathered = span_of(scratch.gathered);
    for (int64_t c = 0; c < (int64_t)scratch.maxima.size(); ++c)
      if (scratch.maxima[c] >= least)
        XMC_ON_THIS_CPU(append_places(gathered.slice(c * chunk, (c + 1) * chunk), least, top,
                                      (int32_t)(block.first + c * chunk), scratch.places));
    offer_listed(choice, enough, all, scratch);
  }

  void offer_listed(const RowChoice& choice, int32_t enough, bool all, FastScratch& scratch) const {
    const Span<const int32_t> places = span_of(scratch.places);
    XMC_ON_THIS_CPU(offer_places(choice, labels_, places, enough, all, span_of(scratch.values), scratch.best));
  }

  void offer_by_bound(const RowChoice& choice, const BlockIndex& block, int32_t enough, int64_t chunk, int64_t k,
                      const GatheredBound& bound, FastScratch& scratch) const {
    const int32_t first = reached_by(k, scratch.maxima);
    offer(choice, block, first, kBeyond, enough, chunk, scratch);
    scratch.best.cut();
    int32_t low = 1, high = first;  // the least that may still enter is in [low, high]
    if (scratch.best.size() >= k)
      while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (bound.allows(*choice.rule, middle, scratch.best.floor()))
          high = middle;
        else
          low = middle + 1;
      }
    if (low < first) offer(choice, block, low, first, enough, chunk, scratch);
  }

  // The largest number, at least 1, that k of these reach; 1 if fewer reach any.
  static int32_t reached_by(int64_t k, const std::vector<uint16_t>& numbers) {
    int32_t low = 1, high = kBeyond;
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      int64_t count = 0;
      XMC_ON_THIS_CPU(count_reaching(span_of(numbers), middle, count));
      (count >= k ? low : high) = middle;
    }
    return low;
  }

  // Fewer than k labels were found often enough: those found less often follow, down to those that were not found.
  void offer_more(const RowChoice& choice, int32_t enough, int64_t top, int64_t k, FastScratch& scratch) const {
    scratch.best.reset(k);
    int64_t found = 0;
    for (const BlockIndex& block : blocks_) {
      const int64_t chunk = gather(block, top, k, scratch);
      offer(choice, block, 1, kBeyond, enough, chunk, scratch, true);
      found += (int64_t)scratch.places.size();
      clear(scratch);
    }
    if (found >= k) return;
    scratch.best.reset(k);
    scratch.places.resize((size_t)size());
    for (int64_t i = 0; i < size(); ++i) scratch.places[i] = (int32_t)i;
    offer_listed(choice, enough, true, scratch);
  }

  Span<const int32_t> labels_;
  std::vector<BucketHash> hashes_;
  int64_t buckets_;
  std::vector<BlockIndex> blocks_;
  mutable ScratchPool<FastScratch> pool_;
};

}  // namespace xmc
