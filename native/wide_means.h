// Spherical k-means of one node into many clusters of any size, as shallow, wide trees need it. Sixteen
// centres share a table [feature][16], so that an entry of a row meets all of them in one place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "label_rows.h"
#include "parallel.h"
#include "random.h"
#include "simd.h"

namespace xmc {

struct WideSettings {
  int clusters = 100;
  int iterations = 8;
  double tolerance = 0.01;  // stop when no more than this share of rows changed clusters
  uint64_t seed = 0;
  int threads = 1;
};

// dots[i * 16 + k] = row i . centre k, for rows [from, to). Integers below 2^53 up to 2^23 rows: exact.
XMC_INLINE void lane_dots_body(const LabelRows& rows, Span<const double> table, int64_t from, int64_t to,
                               Span<double> dots) {
  for (int64_t i = from; i < to; ++i) {
    double sum[kLanes] = {};
    for (int64_t p = rows.begin[i], end = rows.end[i]; p < end; ++p) {
      const double* centre = &table[(int64_t)rows.feature[p] * kLanes];
      const double v = rows.value[p];
      for (int k = 0; k < kLanes; ++k) sum[k] += v * centre[k];
    }
    for (int k = 0; k < kLanes; ++k) dots[i * kLanes + k] = sum[k];
  }
}
XMC_MULTIVERSION(lane_dots,
                 (const LabelRows& rows, Span<const double> table, int64_t from, int64_t to, Span<double> dots),
                 (rows, table, from, to, dots))

class WideMeans {
 public:
  // cluster[i] for each row, numbered from 0 without gaps. Returns the number of clusters.
  int run(const LabelRows& rows, const WideSettings& settings, Span<int32_t> cluster) {
    rows_ = &rows;
    settings_ = settings;
    cluster_ = cluster;
    const int64_t n = rows.count();
    counted_.assign(n, -1);
    seed_centres();
    for (int pass = 0; pass < settings.iterations; ++pass) {
      assign();
      int64_t moved = 0;
      for (int64_t i = 0; i < n; ++i) {
        moved += counted_[i] != cluster[i];
        counted_[i] = cluster[i];
      }
      if ((double)moved <= settings.tolerance * n) break;
    }
    return close_gaps();
  }

 private:
  // The labels with the smallest hashes, one centre each.
  void seed_centres() {
    const int64_t n = rows_->count();
    std::vector<std::pair<uint64_t, int64_t>> order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = {mix(settings_.seed ^ mix((uint64_t)i)), i};
    std::partial_sort(order.begin(), order.begin() + settings_.clusters, order.end());
    for (int c = 0; c < settings_.clusters; ++c) counted_[order[c].second] = c;
  }

  // Each row to the nearest of the centres that counted_ makes; of equals, the first.
  void assign() {
    const int64_t n = rows_->count();
    best_.assign(n, -INFINITY);
    std::fill(cluster_.begin(), cluster_.end(), -1);
    dots_.resize(n * kLanes);
    table_.resize(rows_->features * kLanes);
    for (int first = 0; first < settings_.clusters; first += kLanes) {
      sum_centres(first);
      parallel_for((n + kBlock - 1) / kBlock, settings_.threads, [&](int64_t b, int) {
        lane_dots(*rows_, Span<double>(table_), b * kBlock, std::min(n, (b + 1) * kBlock), Span<double>(dots_));
      });
      keep_nearer(first);
    }
    place_the_rest();
  }

  void sum_centres(int first) {
    std::fill(table_.begin(), table_.end(), 0);
    const Span<double> table(table_);
    for (int64_t i = 0; i < rows_->count(); ++i) {
      const int lane = counted_[i] - first;
      if (counted_[i] < first || lane >= kLanes) continue;
      for (int64_t p = rows_->begin[i]; p < rows_->end[i]; ++p)
        table[(int64_t)rows_->feature[p] * kLanes + lane] += rows_->value[p];
    }
  }

  void keep_nearer(int first) {
    const int64_t n = rows_->count();
    double square[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) {
      const int lane = counted_[i] - first;
      if (counted_[i] < first || lane >= kLanes) continue;
      dots_[i * kLanes + lane] += (double)rows_->own[i];
      square[lane] += dots_[i * kLanes + lane];
    }
    double scale[kLanes];
    for (int k = 0; k < kLanes; ++k) scale[k] = square[k] > 0.0 ? 1.0 / std::sqrt(square[k]) : 0.0;
    const int lanes = std::min(kLanes, settings_.clusters - first);
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < lanes; ++k) {
        const double cosine = dots_[i * kLanes + k] * scale[k];
        if (cosine > best_[i]) {
          best_[i] = cosine;
          cluster_[i] = first + k;
        }
      }
  }

  // Rows that have nothing in common with the nearest centre (empty ones, too) go to the smallest clusters, in label
  // order.
  void place_the_rest() {
    for (int64_t i = 0; i < rows_->count(); ++i)
      if (best_[i] == 0.0) cluster_[i] = -1;
    std::vector<int64_t> size(settings_.clusters, 0);
    for (int32_t c : cluster_)
      if (c >= 0) ++size[c];
    for (int64_t i = 0; i < rows_->count(); ++i)
      if (cluster_[i] < 0) {
        cluster_[i] = (int32_t)(std::min_element(size.begin(), size.end()) - size.begin());
        ++size[cluster_[i]];
      }
  }

  int close_gaps() {
    std::vector<int32_t> number(settings_.clusters, -1);
    for (int32_t c : cluster_) number[c] = 0;
    int32_t used = 0;
    for (int32_t& c : number)
      if (c == 0) c = used++;
    for (int32_t& c : cluster_) c = number[c];
    return used;
  }

  static constexpr int64_t kBlock = 512;
  const LabelRows* rows_ = nullptr;
  WideSettings settings_;
  Span<int32_t> cluster_;
  std::vector<int32_t> counted_;  // the cluster whose centre counts the row; -1: none
  std::vector<double> table_, dots_, best_;
};

}  // namespace xmc
