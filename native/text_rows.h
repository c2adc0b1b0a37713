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
      : features_(features), bits_(features / 64 + 1), middle_(bits_.size() / 64 + 1), top_(middle_.size() / 64 + 1) {}

  XMC_INLINE void add(uint32_t feature) {
    if ((int64_t)feature >= features_) return;  // kNone, or a damaged file
    const uint32_t word = feature >> 6;
    const uint64_t bit = 1ull << (feature & 63), old = bits_[word];
    if (old & bit) {
      repeats_.push_back(feature);
      return;
    }
    bits_[word] = old | bit;
    middle_[word >> 6] |= 1ull << (word & 63);
    top_[word >> 12] |= 1ull << ((word >> 6) & 63);
    ++distinct_;
  }
  int64_t distinct() const { return distinct_; }

  // Writes the row, distinct() long, and starts the next one.
  void finish(const Weighting& weighting, int32_t* indices, float* data) {
    drain(indices);
    std::sort(repeats_.begin(), repeats_.end());
    weigh(weighting, indices, data);
    repeats_.clear();
    distinct_ = 0;
  }

 private:
  // The features in increasing order; clears the bitmap.
  void drain(int32_t* indices) {
    for (size_t t = 0; t < top_.size(); ++t) {
      for (uint64_t high = top_[t]; high; high &= high - 1) {
        const size_t m = t * 64 + __builtin_ctzll(high);
        for (uint64_t mid = middle_[m]; mid; mid &= mid - 1) {
          const size_t w = m * 64 + __builtin_ctzll(mid);
          for (uint64_t low = bits_[w]; low; low &= low - 1) *indices++ = (int32_t)(w * 64 + __builtin_ctzll(low));
          bits_[w] = 0;
        }
        middle_[m] = 0;
      }
      top_[t] = 0;
    }
  }

  struct Segment {  // the part of a row that one run of features fills
    int64_t end;
    int vectorizer;
    double sum, squares;
  };

  void weigh(const Weighting& weighting, const int32_t* indices, float* data) {
    values_.resize(distinct_);
    segments_.clear();
    const uint32_t *repeat = repeats_.data(), *last = repeat + repeats_.size();
    int64_t run = 0;
    for (int64_t i = 0; i < distinct_;) {
      run = weighting.run_of(indices[i], run);
      Segment part{i, weighting.run_vectorizer[run], 0.0, 0.0};
      const int64_t stop = weighting.run_start[run + 1];
      for (; i < distinct_ && indices[i] < stop; ++i) {
        uint32_t count = 1;
        for (; repeat != last && *repeat == (uint32_t)indices[i]; ++repeat) ++count;
        const double idf = weighting.idf[indices[i]];
        const double value = count == 1 ? idf : idf * weighting.term_weight(part.vectorizer, count);
        values_[i] = value;
        part.sum += value;
        part.squares += value * value;
      }
      part.end = i;
      segments_.push_back(part);
    }
    scale(weighting, data);
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
  std::vector<Segment> segments_;
  int64_t distinct_ = 0;
};

}  // namespace xmc
