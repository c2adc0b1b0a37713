// From the features of a document to its row of the matrix: sorted, counted, weighted, normalised.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fmath.h"
#include "span.h"
#include "text_table.h"

namespace xmc {

enum class Norm : int { none = 0, l1 = 1, l2 = 2 };

struct VectorizerWeights {
  bool sublinear, binary;
  Norm norm;
};

// How counts become values. Features run_start[k] <= f < run_start[k + 1] belong to one vectorizer.
struct Weighting {
  Span<const float> idf;
  Span<const int64_t> run_start;      // runs + 1, from 0 to the number of features
  Span<const uint8_t> run_vectorizer;
  std::vector<VectorizerWeights> vectorizers;
  Norm joint = Norm::none;

  void add(bool sublinear, bool binary, int norm) { vectorizers.push_back({sublinear, binary, (Norm)norm}); }

  double term_weight(int vectorizer, uint32_t count) const {
    if (count == 1 || vectorizers[vectorizer].binary) return 1.0;
    return vectorizers[vectorizer].sublinear ? 1.0 + exact_log((double)count) : (double)count;
  }
  // The run that feature f, not below run `from`, belongs to.
  int64_t run_of(int64_t f, int64_t from) const {
    if (f < run_start[from + 1]) return from;
    return std::upper_bound(run_start.begin() + from + 1, run_start.end() - 1, f) - run_start.begin() - 1;
  }
};

// Collects the features of one document. A bitmap with two summaries above it sorts them without
// comparing: rows are short and the features many, so only touched words are visited and cleared.
class RowBuilder {
 public:
  explicit RowBuilder(int64_t features)
      : features_(features),
        bits_(features / 64 + 1),
        middle_(bits_.size() / 64 + 1),
        top_(middle_.size() / 64 + 1) {}

  // Features beyond the last one (kNone, or from a damaged file) are left out.
  XMC_INLINE void add(Span<const uint32_t> features, const Weighting& weighting) {
    added_ += features.size();
    for (uint32_t feature : features) add_one(feature, weighting);
  }
  XMC_INLINE void add(uint32_t feature, const Weighting& weighting) {
    ++added_;
    add_one(feature, weighting);
  }

  // Ends the row: sorts its features; returns their number.
  int64_t sort() {
    if ((int64_t)sorted_.size() < added_ + 2) sorted_.resize(2 * added_ + 64);
    distinct_ = drain(sorted_.data()) - sorted_.data();
    if (repeats_.size() > 1) std::sort(repeats_.begin(), repeats_.end());
    added_ = 0;
    return distinct_;
  }

  // Writes the sorted row and starts the next one.
  void write(const Weighting& weighting, int32_t* indices, float* data) {
    std::copy(sorted_.begin(), sorted_.begin() + distinct_, indices);
    weigh(weighting, data);
    repeats_.clear();
  }

 private:
  XMC_INLINE void add_one(uint32_t feature, const Weighting& weighting) {
    if ((int64_t)feature >= features_) return;
    __builtin_prefetch(weighting.idf.ptr + feature);
    const uint32_t word = feature >> 6;
    const uint64_t bit = 1ull << (feature & 63), old = bits_[word];
    if (old & bit) {
      repeats_.push_back(feature);
      return;
    }
    bits_[word] = old | bit;
    middle_[word >> 6] |= 1ull << (word & 63);
    top_[word >> 12] |= 1ull << ((word >> 6) & 63);
  }

  // The features in increasing order, and where they end; clears the bitmap. Most words hold one or two
  // bits: writing two at once, wanted or not, spares a branch that could not be predicted.
  int32_t* drain(int32_t* out) {
    for (size_t t = 0; t < top_.size(); ++t) {
      for (uint64_t high = top_[t]; high; high &= high - 1) {
        const size_t m = t * 64 + __builtin_ctzll(high);
        for (uint64_t mid = middle_[m]; mid; mid &= mid - 1) {
          const size_t w = m * 64 + __builtin_ctzll(mid);
          const int32_t base = (int32_t)(w * 64);
          uint64_t low = bits_[w];
          out[0] = base + __builtin_ctzll(low);
          low &= low - 1;
          out[1] = base + __builtin_ctzll(low | 1ull << 63);
          out += 1 + (low != 0);
          for (low &= low - 1; low; low &= low - 1) *out++ = base + __builtin_ctzll(low);
          bits_[w] = 0;
        }
        middle_[m] = 0;
      }
      top_[t] = 0;
    }
    return out;
  }

  struct Segment {  // the part of a row that one run of features fills
    int64_t end;
    int vectorizer;
    double sum, squares;
  };

  void weigh(const Weighting& weighting, float* data) {
    if ((int64_t)values_.size() < distinct_) values_.resize(2 * distinct_ + 64);
    for (int64_t i = 0; i < distinct_; ++i) values_[i] = weighting.idf[sorted_[i]];
    segments_.clear();
    const uint32_t* repeat = repeats_.data();
    int64_t run = 0;
    for (int64_t begin = 0; begin < distinct_; begin = segments_.back().end) {
      run = weighting.run_of(sorted_[begin], run);
      Segment part{segment_end(begin, weighting.run_start[run + 1]), weighting.run_vectorizer[run], 0.0, 0.0};
      repeat = apply_repeats(weighting, part.vectorizer, begin, part.end, repeat);
      for (int64_t i = begin; i < part.end; ++i) {
        part.sum += values_[i];
        part.squares += values_[i] * values_[i];
      }
      segments_.push_back(part);
    }
    scale(weighting, data);
  }

  // First position whose feature is not below `stop`.
  int64_t segment_end(int64_t begin, int64_t stop) const {
    if (sorted_[distinct_ - 1] < stop) return distinct_;
    while (sorted_[begin] < stop) ++begin;
    return begin;
  }

  // Weighs what occurs more than once among sorted features begin to end; returns the next repeat.
  const uint32_t* apply_repeats(const Weighting& weighting, int vectorizer, int64_t begin, int64_t end,
                                const uint32_t* repeat) {
    const uint32_t* last = repeats_.data() + repeats_.size();
    for (int64_t at = begin; repeat != last && *repeat <= (uint32_t)sorted_[end - 1];) {
      while ((uint32_t)sorted_[at] < *repeat) ++at;
      uint32_t count = 1;
      for (; repeat != last && *repeat == (uint32_t)sorted_[at]; ++repeat) ++count;
      values_[at] *= weighting.term_weight(vectorizer, count);
    }
    return repeat;
  }

  static double factor(Norm norm, double sum, double squares) {
    const double size = norm == Norm::l1 ? sum : norm == Norm::l2 ? std::sqrt(squares) : 1.0;
    return size > 0 ? 1.0 / size : 1.0;
  }

  // A norm is taken over all runs of a vectorizer, then over the whole row.
  void scale(const Weighting& weighting, float* data) {
    const size_t count = weighting.vectorizers.size();
    sums_.assign(2 * count, 0.0);
    for (const Segment& part : segments_) {
      sums_[2 * part.vectorizer] += part.sum;
      sums_[2 * part.vectorizer + 1] += part.squares;
    }
    double sum = 0, squares = 0;
    for (size_t v = 0; v < count; ++v) {
      const double f = factor(weighting.vectorizers[v].norm, sums_[2 * v], sums_[2 * v + 1]);
      sum += f * sums_[2 * v];
      squares += f * f * sums_[2 * v + 1];
      sums_[2 * v] = f;
    }
    const double joint = factor(weighting.joint, sum, squares);
    int64_t i = 0;
    for (const Segment& part : segments_) {
      const double f = sums_[2 * part.vectorizer] * joint;
      for (; i < part.end; ++i) data[i] = (float)(values_[i] * f);
    }
  }

  const int64_t features_;
  std::vector<uint64_t> bits_, middle_, top_;
  std::vector<uint32_t> repeats_;
  std::vector<double> values_, sums_;
  std::vector<int32_t> sorted_;
  std::vector<Segment> segments_;
  int64_t added_ = 0, distinct_ = 0;
};

}  // namespace xmc
