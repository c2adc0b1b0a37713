// What a label's score is made of, and the best labels of a row.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "simd.h"
#include "sketch_hash.h"
#include "span.h"

namespace xmc {

template <class Vector>
auto span_of(Vector& v) {
  return Span<std::remove_pointer_t<decltype(v.data())>>(v.data(), (int64_t)v.size());
}

enum class Aggregate : int { mean = 0, min = 1, median = 2, unbiased = 3 };

// Beyond this, sums of thousands of fourth powers would not be finite.
constexpr float kLargestScore = 1e8f;

struct NotFinite : std::invalid_argument {
  NotFinite() : std::invalid_argument("a bucket's score is NaN or beyond 1e8") {}
};

// Sorts whatever stands at its places: smaller to `low` (Knuth, volume 3, algorithm 5.2.2M). No branch depends on the
// numbers, so that all lanes go through it together.
struct Exchange {
  int32_t low, high;
};

inline std::vector<Exchange> sorting_network(int64_t n) {
  std::vector<Exchange> network;
  int64_t top = 1;
  while (top < n) top *= 2;
  for (int64_t p = top / 2; p > 0; p /= 2) {
    int64_t q = top / 2, r = 0, d = p;
    while (true) {
      for (int64_t i = 0; i + d < n; ++i)
        if ((i & p) == r) network.push_back({(int32_t)i, (int32_t)(i + d)});
      if (q == p) break;
      d = q - p;
      q /= 2;
      r = p;
    }
  }
  return network;
}

// Of R repetitions of B buckets.
struct ScoreRule {
  Aggregate aggregate = Aggregate::mean;
  int64_t repetitions = 0;
  float count = 1.0f, chance = 0.0f, stretch = 1.0f;  // R, 1 / B, B / (B - 1)
  std::vector<Exchange> network;

  ScoreRule() = default;
  ScoreRule(Aggregate aggregate, int64_t repetitions, int64_t buckets)
      : aggregate(aggregate), repetitions(repetitions), count((float)repetitions) {
    if (aggregate == Aggregate::median) network = sorting_network(repetitions);
    if (aggregate != Aggregate::unbiased) return;
    chance = (float)(1.0 / (double)buckets);
    stretch = (float)((double)buckets / (double)(buckets - 1));
  }

  bool summed() const { return aggregate == Aggregate::mean || aggregate == Aggregate::unbiased; }

  // From the sum in the order of repetitions (V: a float, or lanes of them). Rises with it.
  template <class V>
  XMC_INLINE V of_sum(V sum) const {
    const V mean = sum / count;
    return aggregate == Aggregate::unbiased ? (mean - chance) * stretch : mean;
  }
};

// A label by its place among those that are recovered, which are in the order of ids. `level` comes first: in how many
// repetitions it was found, up to the number asked for; 0 where nobody asked.
struct Found {
  float score;
  int32_t place, level;

  bool operator<(const Found& o) const {
    if (level != o.level) return level > o.level;
    return score != o.score ? score > o.score : place < o.place;
  }
  static bool by_score(const Found& a, const Found& b) {
    return a.score != b.score ? a.score > b.score : a.place < b.place;
  }
};

// The best `capacity` of what is offered.
class BestLabels {
 public:
  void reset(int64_t capacity) {
    capacity_ = (size_t)capacity;
    items_.clear();
    floor_ = -INFINITY;
  }
  // Of what is offered at the same level from now on, scores below cannot enter; nor can an equal one of a later place.
  float floor() const { return floor_; }
  int64_t size() const { return (int64_t)items_.size(); }
  void offer(Found f) {
    items_.push_back(f);
    if (items_.size() >= 4 * capacity_ + 16) cut();
  }
  void cut() {
    if (items_.size() < capacity_ || capacity_ == 0) return;
    std::nth_element(items_.begin(), items_.begin() + (capacity_ - 1), items_.end());
    items_.resize(capacity_);
    floor_ = items_[capacity_ - 1].score;
  }
  // Best score first; levels decide who is there, not in which order. Filled up with -1, -infinity and level -1.
  void write(Span<const int32_t> labels, Span<int32_t> to_labels, Span<float> to_scores, Span<int32_t> to_levels) {
    cut();
    std::sort(items_.begin(), items_.end(), Found::by_score);
    for (int64_t j = 0; j < to_labels.size(); ++j) {
      const bool there = j < size();
      to_labels[j] = there ? labels[items_[j].place] : -1;
      to_scores[j] = there ? items_[j].score : -INFINITY;
      to_levels[j] = there ? items_[j].level : -1;
    }
  }

 private:
  size_t capacity_ = 0;
  float floor_ = -INFINITY;
  std::vector<Found> items_;
};

// [rows, k] each.
struct RankedRows {
  int64_t k = 0;
  Span<int32_t> labels;
  Span<float> scores;
  Span<int32_t> levels;

  void write(int64_t row, Span<const int32_t> ids, BestLabels& best) const {
    const int64_t from = row * k, to = from + k;
    best.write(ids, labels.slice(from, to), scores.slice(from, to), levels.slice(from, to));
  }
};

// Scores of buckets, [rows][R][B].
struct BucketScores {
  Span<const float> data;
  int64_t repetitions = 0, buckets = 0;

  int64_t rows() const { return data.size() / (repetitions * buckets); }
  Span<const float> row(int64_t r) const {
    const int64_t size = repetitions * buckets;
    return data.slice(r * size, (r + 1) * size);
  }
};

}  // namespace xmc
