// Trains the matchers of one tree node: cuts its problem out of X and Y, solves its children in groups of up to
// 32 and keeps the weights that survive pruning.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "node_problem.h"
#include "solve.h"
#include "span.h"

namespace xmc {

// Everything the nodes of one tree level share. Columns of Y, U and rows of W are the level's children,
// numbered left to right, so a node's children are consecutive.
struct LevelProblem {
  CsrView X, Y;                       // Y: targets in (0, 1]
  Span<const float> relevance;        // cost of each entry of Y; empty = 1
  // Costs of each row of X: for its targets, and as a negative example for all other children; both empty = 1.
  Span<const float> row_weight, row_negative;
  Span<const int64_t> child_ptr;      // node -> its children
  Span<const uint64_t> node_seed;
  Span<const int64_t> node_rows_ptr;  // node -> its training rows, increasing
  Span<const int32_t> node_rows;
  Span<const uint8_t> whole;          // 0: only the node's pairs in Y and U train on this row; empty = all 1
  CsrView U;                          // user-supplied negatives; no rows = none
  CsrView W;                          // weights to start from, those of dense columns too; no rows = none
  Span<const float> w_bias;
  SolverSettings settings;
  float cost_positive = 1, cost_negative = 1;
  // Of the sparse columns; weights of dense ones are all kept.
  float threshold = 0;                // weights below it in absolute value are dropped
  int64_t max_weights = 0;            // per child, the largest; 0 = all
};

constexpr float kLeastCost = 1e-30f;  // below it an example says nothing, and its inverse overflows

struct NodeMatchers {
  std::vector<std::vector<Weight>> weights;  // per child, by increasing feature
  std::vector<float> dense;                  // [child * width + column]
  std::vector<float> bias;
};

// Works on one node at a time; keep one per thread, its memory is used again.
class NodeTrainer {
 public:
  explicit NodeTrainer(int64_t features) : map_(features) {}
  ~NodeTrainer() {
    if (level_ && warm()) map_.clear(problem_.features);
  }

  // The node's rows, features and targets: once, before any group.
  void open(const LevelProblem& level, int64_t node) {
    const int64_t from = level.node_rows_ptr[node], to = level.node_rows_ptr[node + 1];
    const Span<const int32_t> rows = level.node_rows.slice(from, to);
    const bool same = same_problem(level, rows);
    if (level_ && warm()) map_.clear(problem_.features);
    level_ = &level;
    seed_ = level.node_seed[node];
    first_child_ = level.child_ptr[node];
    children_ = level.child_ptr[node + 1] - first_child_;
    rows_ = rows;
    whole_ = level.whole.empty() ? level.whole : level.whole.slice(from, to);
    if (!same) build_node_problem(level.X, rows_, !warm(), map_, problem_);
    if (warm()) map_.set(problem_.features);
    collect_targets();
    out_.weights.assign((size_t)children_, {});
    out_.dense.assign((size_t)(children_ * level.X.width), 0.0f);
    out_.bias.assign((size_t)children_, 0.0f);
  }

  int64_t groups() const { return groups_of(children_); }
  static int64_t groups_of(int64_t children) { return (children + kMostLanes - 1) / kMostLanes; }

  // Solves one group of children. Groups are independent: several threads may each take some, with a LaneProblem
  // of their own. Returns how many of its problems stopped at max_sweeps.
  int solve(int64_t group, LaneProblem& lane) {
    const int64_t used = std::min<int64_t>(kMostLanes, children_ - group * kMostLanes);
    lane.node = &problem_;
    lane.settings = level_->settings;
    lane.settings.seed = seed_;
    lane.cost_positive = level_->cost_positive;
    lane.cost_negative = level_->cost_negative;
    lane.threshold = level_->threshold;
    lane.vectors = used > kLanes ? 2 : 1;
    lane.lanes = used == kMostLanes ? ~0u : (1u << used) - 1;
    for (int l = 0; l < kMostLanes; ++l) {
      lane.problem_of[l] = l;
      lane.kept[l].clear();
    }
    make_examples(group, lane);
    const int64_t examples = (int64_t)lane.examples.size() * lane.vectors;
    lane.W = lane.weights.zeroed((int64_t)problem_.features.size() * lane.vectors);
    lane.D = lane.dense_weights.zeroed(problem_.width * lane.vectors);
    lane.alpha = lane.alphas.zeroed(examples);
    lane.margin = lane.margins.zeroed(lane.settings.loss == Loss::logistic ? examples : 0);
    for (Lanes& bias : lane.w_bias) bias.v = f32x16{};
    lane.warm = warm();
    if (lane.warm) load_weights(group, used, lane);
    solve_lane_problem(lane);
    collect_weights(group, used, lane);
    return lane.unfinished;
  }

  NodeMatchers& matchers() { return out_; }

 private:
  struct Target {
    int32_t row;
    uint8_t lane;
    bool negative;  // user-supplied negative
    float target, relevance;
  };
  bool warm() const { return level_->W.indptr.size() > 1; }

  // Whether the node before had the same rows, as siblings do when the beam opens all of them.
  bool same_problem(const LevelProblem& level, Span<const int32_t> rows) const {
    if (!level_ || warm() || level.W.indptr.size() > 1 || level_->X.indptr.ptr != level.X.indptr.ptr) return false;
    return rows.size() == rows_.size() && std::equal(rows.begin(), rows.end(), rows_.begin());
  }

  static int64_t first_at_least(Span<const int32_t> indices, int64_t column) {
    return std::lower_bound(indices.begin(), indices.end(), (int32_t)column) - indices.begin();
  }

  // Calls visit(row, child, place in Y) for the node's part of Y.
  template <class Visit>
  void each_target(const CsrView& Y, Visit&& visit) const {
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const auto labels = Y.row_indices(rows_[r]);
      for (int64_t p = first_at_least(labels, first_child_); p < labels.size(); ++p) {
        const int64_t child = labels[p] - first_child_;
        if (child >= children_) break;
        visit(r, child, Y.indptr[rows_[r]] + p);
      }
    }
  }

  // Children with about as many positives need about as many sweeps: side by side, no lane waits for another.
  void order_children() {
    std::vector<int64_t> positives((size_t)children_, 0);
    each_target(level_->Y, [&](int64_t, int64_t child, int64_t) { ++positives[child]; });
    order_.resize((size_t)children_);
    for (int64_t c = 0; c < children_; ++c) order_[c] = (int32_t)c;
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return positives[a] > positives[b]; });
    place_.resize((size_t)children_);
    for (int64_t i = 0; i < children_; ++i) place_[order_[i]] = (int32_t)i;
  }

  // The node's part of Y and U, by group of children.
  void collect_targets() {
    order_children();
    targets_.assign((size_t)groups(), {});
    auto add = [&](int64_t r, int64_t child, bool negative, float target, float relevance) {
      const int32_t place = place_[child];
      targets_[place / kMostLanes].push_back({(int32_t)r, (uint8_t)(place % kMostLanes), negative, target, relevance});
    };
    each_target(level_->Y, [&](int64_t r, int64_t child, int64_t p) {
      add(r, child, false, level_->Y.data[p], level_->relevance.empty() ? 1.0f : level_->relevance[p]);
    });
    if (level_->U.indptr.size() <= 1) return;
    each_target(level_->U, [&](int64_t r, int64_t child, int64_t) { add(r, child, true, 0.0f, 1.0f); });
    for (auto& group : targets_)
      std::stable_sort(group.begin(), group.end(), [](const Target& a, const Target& b) { return a.row < b.row; });
  }

  // An example a row; a second one for rows with a soft target, whose negative part is (1 - y) l(-1).
  void make_examples(int64_t group, LaneProblem& lane) const {
    const int64_t n = problem_.rows();
    lane.examples.assign((size_t)n, Example{});
    lane.rows = n;
    lane.specials.clear();
    for (int64_t r = 0; r < n; ++r) {
      Example& e = lane.examples[r];
      e.start = (uint32_t)problem_.start[r];
      e.count = (int32_t)(problem_.start[r + 1] - problem_.start[r]);
      e.norm2 = problem_.norm2[r] + lane.settings.bias * lane.settings.bias;
      e.single_norm2 = problem_.single_norm2[r];
      e.enabled = whole_.empty() || whole_[r] ? lane.lanes : 0;
      if (plain(r)) continue;
      if (negative_weight_of(r) > 0) add_negative_costs(r, lane);
      else e.enabled = 0;
    }
    const auto& targets = targets_[group];
    for (size_t a = 0, b; a < targets.size(); a = b) {
      for (b = a; b < targets.size() && targets[b].row == targets[a].row; ++b) {}
      add_targets(&targets[a], &targets[0] + b, lane);
    }
  }

  float weight_of(int64_t r) const { return level_->row_weight.empty() ? 1.0f : level_->row_weight[rows_[r]]; }
  float negative_weight_of(int64_t r) const {
    return level_->row_negative.empty() ? 1.0f : level_->row_negative[rows_[r]];
  }
  bool plain(int64_t r) const { return weight_of(r) == 1.0f && negative_weight_of(r) == 1.0f; }

  // A row that counts more or less than others has costs of its own, here as if all its targets were 0.
  void add_negative_costs(int64_t r, LaneProblem& lane) const {
    Special costs;
    for (int v = 0; v < kMostVectors; ++v) costs.cost[v].v = f32x16{} + negative_weight_of(r) * lane.cost_negative;
    lane.examples[r].special = (int32_t)lane.specials.size();
    lane.specials.push_back(costs);
  }

  void add_targets(const Target* begin, const Target* end, LaneProblem& lane) const {
    const int32_t row = begin->row;
    const float weight = weight_of(row);
    uint32_t soft = 0;
    bool uniform = plain(row);
    for (const Target* t = begin; t < end; ++t) {
      const uint32_t bit = 1u << t->lane;
      lane.examples[row].enabled |= bit;
      if (t->negative) continue;
      lane.examples[row].positive |= bit;
      if (t->target < 1.0f) soft |= bit;
      if (t->target < 1.0f || t->relevance != 1.0f) uniform = false;
    }
    if (uniform) return;
    Special positive_part, negative_part;
    for (int v = 0; v < kMostVectors; ++v) {
      positive_part.cost[v].v = f32x16{} + negative_weight_of(row) * lane.cost_negative;
      negative_part.cost[v].v = f32x16{};
    }
    for (const Target* t = begin; t < end; ++t) {
      if (t->negative) continue;
      const float cost = weight * lane.cost_positive * t->relevance * t->target;
      positive_part.cost[t->lane / kLanes].v[t->lane % kLanes] = cost;
      negative_part.cost[t->lane / kLanes].v[t->lane % kLanes] = weight * lane.cost_negative * (1.0f - t->target);
      if (!(cost >= kLeastCost)) lane.examples[row].enabled &= ~(1u << t->lane);
    }
    if (soft) positive_part.twin = (int32_t)lane.examples.size();
    lane.examples[row].special = (int32_t)lane.specials.size();
    lane.specials.push_back(positive_part);
    if (!soft) return;
    Example rest = lane.examples[row];
    rest.positive = 0;
    rest.enabled = soft;
    rest.special = (int32_t)lane.specials.size();
    negative_part.twin = row;
    lane.specials.push_back(negative_part);
    lane.examples.push_back(rest);
  }

  void load_weights(int64_t group, int64_t used, LaneProblem& lane) const {
    for (int64_t l = 0; l < used; ++l) {
      const int64_t child = first_child_ + order_[group * kMostLanes + l];
      const auto features = level_->W.row_indices(child);
      const auto values = level_->W.row_data(child);
      for (int64_t p = 0; p < features.size(); ++p)
        if (const int32_t compact = map_.slot[features[p]])
          lane.W[(int64_t)(compact - 1) * lane.vectors + l / kLanes].v[l % kLanes] = values[p];
      const auto dense = level_->W.row_dense(child);
      for (int64_t f = 0; f < dense.size(); ++f)
        lane.D[l / kLanes * problem_.width + f].v[l % kLanes] = dense[f];
      if (lane.settings.bias > 0) lane.w_bias[l / kLanes].v[l % kLanes] = level_->w_bias[child] / lane.settings.bias;
    }
  }

  void collect_weights(int64_t group, int64_t used, LaneProblem& lane) {
    for (int64_t l = 0; l < used; ++l) {
      const int32_t child = order_[group * kMostLanes + l];
      keep_largest(lane.kept[l]);
      out_.weights[child].assign(lane.kept[l].begin(), lane.kept[l].end());
      std::copy(lane.dense_of[l].begin(), lane.dense_of[l].end(), out_.dense.begin() + child * problem_.width);
      out_.bias[child] = lane.bias_of[l];
    }
  }

  void keep_largest(std::vector<Weight>& weights) const {
    const size_t most = (size_t)level_->max_weights;
    if (most > 0 && weights.size() > most) {
      std::nth_element(weights.begin(), weights.begin() + most, weights.end(), [](const Weight& a, const Weight& b) {
        const float x = std::fabs(a.value), y = std::fabs(b.value);
        return x != y ? x > y : a.feature < b.feature;
      });
      weights.resize(most);
    }
    std::sort(weights.begin(), weights.end(), [](const Weight& a, const Weight& b) { return a.feature < b.feature; });
  }

  const LevelProblem* level_ = nullptr;
  FeatureMap map_;
  NodeProblem problem_;
  NodeMatchers out_;
  Span<const int32_t> rows_;
  Span<const uint8_t> whole_;
  uint64_t seed_ = 0;
  int64_t first_child_ = 0, children_ = 0;
  std::vector<int32_t> order_, place_;  // children by group and lane, and back
  std::vector<std::vector<Target>> targets_;
};

}  // namespace xmc
