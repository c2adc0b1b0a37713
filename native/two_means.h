// Balanced spherical 2-means of one node. Both centres follow from one running sum: with s the sum of the
// rows and t that of the left side, a row z leans left by z.t/|t| - z.(s-t)/|s-t|. z.s is computed once, z.t
// in one pass per iteration, and t follows the rows that change sides. As all sums are exact
// (label_rows.h), nothing drifts and nothing depends on order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "label_rows.h"
#include "parallel.h"
#include "random.h"

namespace xmc {

struct SplitSettings {
  int iterations = 8;        // passes over the rows, at most
  double tolerance = 0.01;   // stop when no more than this share of rows changed sides
  double keep = 1.0;         // share of rows that the iterations look at (paper 1: beta)
  int threads = 1;
};

// The first passes over random centres are rough whatever they read, so they read a few rows only.
constexpr double kStartShare = 0.1;
constexpr double kStartRows = 200, kStartRowsMost = 2000;
constexpr int kStartIterations = 5;

// A row near the cut drifts the same way pass after pass. Between the first and the last pass, sides are
// chosen by where it is heading: its lean plus this many times its last change. Five passes then end in
// better clusters (mean label-leaf cosine +1%) than twenty without.
constexpr double kLookAhead = 4.0;

// Rows a worker takes at a time.
constexpr int64_t kRowBlock = 512;

template <class Sum>
inline int64_t row_dot(const LabelRows& rows, int64_t r, Span<const Sum> table) {
  const Span<const int32_t> feature = rows.feature;
  const Span<const int16_t> value = rows.value;
  const int64_t end = rows.end[r];
  int64_t p = rows.begin[r], a = 0, b = 0, c = 0, d = 0;  // four sums only to keep the adder busy
  for (; p + 4 <= end; p += 4) {
    a += (int64_t)table[feature[p]] * value[p];
    b += (int64_t)table[feature[p + 1]] * value[p + 1];
    c += (int64_t)table[feature[p + 2]] * value[p + 2];
    d += (int64_t)table[feature[p + 3]] * value[p + 3];
  }
  for (; p < end; ++p) a += (int64_t)table[feature[p]] * value[p];
  return a + b + c + d;
}

template <class Sum>
inline void add_row(const LabelRows& rows, int64_t r, int sign, Span<Sum> table) {
  for (int64_t p = rows.begin[r], end = rows.end[r]; p < end; ++p)
    table[rows.feature[p]] += (Sum)(sign * rows.value[p]);
}

// Whether some column sum might not fit in 32 bits. It is at most the sum of the rows' largest values.
inline bool needs_wide_sums(const LabelRows& rows, Span<const int32_t> members) {
  if (members.size() <= INT32_MAX / 32767) return false;
  int64_t bound = 0;
  for (int32_t r : members) {
    int largest = 0;
    for (int64_t p = rows.begin[r]; p < rows.end[r]; ++p) largest = std::max(largest, std::abs((int)rows.value[p]));
    bound += largest;
  }
  return bound > INT32_MAX;
}

template <class Sum>
class TwoMeans {
 public:
  // left[i] becomes 1 for the n_left members that go left. `chance[i]` in [0, 1) is the label's own random
  // number: a sample is the labels below a threshold. Returns the number of passes over the rows kept.
  int split(const LabelRows& rows, Span<const int32_t> members, Span<const double> chance, int64_t n_left,
            uint64_t seed, const SplitSettings& settings, Span<uint8_t> left) {
    rows_ = &rows;
    members_ = members;
    settings_ = settings;
    left_ = left;
    prepare();
    const int64_t n = members.size();
    const double start = std::min(std::max(kStartShare, kStartRows / n), kStartRowsMost / n);
    pick(chance, start * settings.keep);
    const bool warm = (int64_t)list_.size() >= kStartRows / 2 && (int64_t)list_.size() < n;
    if (!warm) pick(chance, settings.keep);
    if (list_.size() < 8) pick(chance, 1.0);
    seed_centres(seed);
    if (warm) {
      cluster(n_left, kStartIterations, 0.0);
      pick(chance, settings.keep);
    }
    const int passes = cluster(n_left, settings.iterations, settings.tolerance);
    if ((int64_t)list_.size() < n) {
      pick(chance, 1.0);
      lean_by_centres(true);
      choose(n_left);
    }
    return passes;
  }

 private:
  enum Counted : uint8_t { kOut, kRight, kLeft };

  void prepare() {
    const int64_t n = members_.size();
    dot_left_.resize(n);
    dot_all_.resize(n);
    lean_.resize(n);
    plain_lean_.resize(n);
    change_.resize(n);
    counted_.assign(n, kOut);
    sum_left_ = clear(tables_[0]);
    sum_all_ = clear(tables_[1]);
  }

  Span<Sum> clear(Table<Sum>& table) {
    Span<Sum> out = table.take(rows_->features);
    std::fill(out.begin(), out.end(), 0);
    return out;
  }

  void pick(Span<const double> chance, double share) {
    list_.clear();
    for (int64_t i = 0; i < members_.size(); ++i)
      if (share >= 1.0 || chance[i] < share) list_.push_back((int32_t)i);
  }

  // Two labels of the list are the first centres.
  void seed_centres(uint64_t seed) {
    Random random(seed);
    const uint32_t n = (uint32_t)list_.size();
    const uint32_t a = random.below(n), shift = 1 + random.below(n - 1);
    const int32_t first = list_[a], second = list_[(a + shift) % n];
    count_in(first, kLeft);
    count_in(second, kRight);
    norm_left_ = (double)dot_with(sum_left_, first) + own(first);
    norm_right_ = (double)dot_with(sum_all_, second) - (double)dot_with(sum_left_, second) + own(second);
  }

  void count_in(int32_t i, Counted side) {
    add_row<Sum>(*rows_, members_[i], 1, sum_all_);
    if (side == kLeft) add_row<Sum>(*rows_, members_[i], 1, sum_left_);
    counted_[i] = side;
  }

  // From the present centres, balanced 2-means of the rows in list_.
  int cluster(int64_t n_left_of_all, int iterations, double tolerance) {
    const int64_t n = list_.size();
    const int64_t n_left = std::max<int64_t>(1, std::min(n - 1, n_left_of_all * n / members_.size()));
    lean_by_centres(true);
    choose(n_left);
    count_afresh();
    for (int pass = 1; pass < iterations; ++pass) {
      lean_by_centres(pass == 1, true);
      if (pass > 1 && pass + 1 < iterations) look_ahead();
      choose(n_left);
      moved_.clear();
      for (int32_t i : list_)
        if ((counted_[i] == kLeft) != (left_[i] != 0)) moved_.push_back(i);
      if ((double)moved_.size() <= tolerance * n || pass + 1 == iterations) return pass + 1;
      add_rows(moved_, sum_left_, [&](int32_t i) { return left_[i] ? 1 : -1; });
      for (int32_t i : moved_) counted_[i] = left_[i] ? kLeft : kRight;
    }
    return iterations;
  }

  void count_afresh() {
    clear(tables_[0]);
    clear(tables_[1]);
    std::fill(counted_.begin(), counted_.end(), kOut);
    for (int32_t i : list_) counted_[i] = left_[i] ? kLeft : kRight;
    add_rows(list_, sum_all_, [](int32_t) { return 1; });
    moved_.clear();
    for (int32_t i : list_)
      if (left_[i]) moved_.push_back(i);
    add_rows(moved_, sum_left_, [](int32_t) { return 1; });
  }

  // lean_ of the rows in list_; with `renew`, the lengths of the centres first (list_ is then what they count).
  void lean_by_centres(bool all_changed, bool renew = false) {
    in_blocks(list_.size(), [&](int64_t k) {
      const int32_t i = list_[k];
      if (all_changed) dot_all_[i] = dot_with(sum_all_, i) + (counted_[i] != kOut ? own(i) : 0);
      dot_left_[i] = dot_with(sum_left_, i) + (counted_[i] == kLeft ? own(i) : 0);
    });
    if (renew) {
      norm_left_ = norm_right_ = 0.0;
      for (int32_t i : list_) {
        if (counted_[i] == kLeft) norm_left_ += (double)dot_left_[i];
        else norm_right_ += (double)(dot_all_[i] - dot_left_[i]);
      }
    }
    const double per_left = norm_left_ > 0.0 ? 1.0 / std::sqrt(norm_left_) : 0.0;
    const double per_right = norm_right_ > 0.0 ? 1.0 / std::sqrt(norm_right_) : 0.0;
    for (int32_t i : list_) {
      const double lean = (double)dot_left_[i] * per_left - (double)(dot_all_[i] - dot_left_[i]) * per_right;
      change_[i] = lean - plain_lean_[i];
      lean_[i] = plain_lean_[i] = lean;
    }
  }

  void look_ahead() {
    for (int32_t i : list_) lean_[i] += kLookAhead * change_[i];
  }

  // The n_left rows of list_ that lean left most; of equals, the first labels.
  void choose(int64_t n_left) {
    sorted_.clear();
    for (int32_t i : list_) sorted_.push_back(lean_[i]);
    std::nth_element(sorted_.begin(), sorted_.begin() + (n_left - 1), sorted_.end(), std::greater<double>());
    const double cut = sorted_[n_left - 1];
    int64_t ties = n_left;
    for (int32_t i : list_) ties -= lean_[i] > cut;
    for (int32_t i : list_) {
      const bool tie = lean_[i] == cut && ties > 0;
      ties -= tie;
      left_[i] = lean_[i] > cut || tie;
    }
  }

  int64_t own(int32_t i) const { return rows_->own[members_[i]]; }
  int64_t dot_with(Span<const Sum> table, int32_t i) const { return row_dot<Sum>(*rows_, members_[i], table); }

  template <class Body>
  void in_blocks(int64_t n, Body&& body) {
    parallel_for((n + kRowBlock - 1) / kRowBlock, settings_.threads, [&](int64_t block, int) {
      for (int64_t k = block * kRowBlock, end = std::min(n, k + kRowBlock); k < end; ++k) body(k);
    });
  }

  // Adds rows to a table; each further worker has a table of its own that is added at the end.
  template <class Sign>
  void add_rows(const std::vector<int32_t>& list, Span<Sum> table, Sign&& sign) {
    const int workers = (int64_t)list.size() < 8 * kRowBlock ? 1 : settings_.threads;
    std::vector<std::vector<Sum>> partial(workers - 1);
    const int64_t n = list.size();
    parallel_for(workers, workers, [&](int64_t w, int) {
      Span<Sum> to = table;
      if (w > 0) {
        partial[w - 1].assign(table.size(), 0);
        to = Span<Sum>(partial[w - 1]);
      }
      for (int64_t k = n * w / workers; k < n * (w + 1) / workers; ++k)
        add_row<Sum>(*rows_, members_[list[k]], sign(list[k]), to);
    });
    for (const auto& part : partial)
      for (int64_t f = 0; f < table.size(); ++f) table[f] += part[f];
  }

  const LabelRows* rows_ = nullptr;
  Span<const int32_t> members_;
  SplitSettings settings_;
  Span<uint8_t> left_;
  Table<Sum> tables_[2];
  Span<Sum> sum_left_, sum_all_;          // t and s
  double norm_left_ = 0, norm_right_ = 0;  // |t|^2 and |s-t|^2
  std::vector<int32_t> list_, moved_;      // positions in members_
  std::vector<Counted> counted_;           // where the sums have each row
  std::vector<int64_t> dot_left_, dot_all_;
  std::vector<double> lean_, plain_lean_, change_, sorted_;
};

}  // namespace xmc
