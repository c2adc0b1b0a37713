// Margins of all buckets of one repetition for sparse rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "parallel.h"
#include "sketch_transform.h"
#include "span.h"

namespace xmc {

// One linear classifier a bucket, kept by feature: the buckets that a feature has a weight for, and the weights.
template <class Bucket>
struct BucketWeights {
  Span<const int64_t> indptr;
  Span<const Bucket> buckets;
  Span<const float> values, bias;
};

// Weights come from files: what they say is not taken on trust.
struct DamagedWeights : std::invalid_argument {
  DamagedWeights() : std::invalid_argument("the weights of a repetition are damaged: copy or train it again") {}
};

// The bias first, then the row's features in order.
template <class Bucket>
void add_margins(const BucketWeights<Bucket>& weights, Span<const int32_t> features, Span<const float> values,
                 Span<float> out) {
  constexpr int64_t kAhead = 4;
  std::copy(weights.bias.begin(), weights.bias.end(), out.begin());
  const uint32_t width = (uint32_t)out.size();
  for (int64_t f = 0; f < features.size(); ++f) {
    if (f + kAhead < features.size()) __builtin_prefetch(&weights.indptr[features[f + kAhead]]);
    const int64_t from = weights.indptr[features[f]], to = weights.indptr[features[f] + 1];
    if (from < 0 || from > to || to > weights.buckets.size()) throw DamagedWeights();
    const float x = values[f];
    for (int64_t p = from; p < to; ++p) {
      const uint32_t bucket = (uint32_t)weights.buckets[p];
      if (bucket >= width) throw DamagedWeights();
      out[bucket] += x * weights.values[p];
    }
  }
}

template <class Bucket>
void bucket_margins(const BucketWeights<Bucket>& weights, const CsrView& X, int threads, const DenseRows& out) {
  constexpr int64_t kBlock = 64;
  parallel_for((out.rows + kBlock - 1) / kBlock, threads, [&](int64_t block, int) {
    for (int64_t r = block * kBlock; r < std::min(out.rows, (block + 1) * kBlock); ++r)
      add_margins(weights, X.row_indices(r), X.row_data(r), out[r]);
  });
}

}  // namespace xmc
