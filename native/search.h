// Beam search down a packed label tree, for one query or many.
//
// A block of queries goes down level by level; at each level the (node, query) pairs are visited node by node,
// so that a node's table is read while it is in the cache. A pair's score depends on nothing else, and ties are
// broken by number, so the answer does not depend on the blocks.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "fmath.h"
#include "packed.h"
#include "simd.h"
#include "span.h"

namespace xmc {

enum class Transform : int { identity = 0, sigmoid = 1, hinge = 2 };

// How a matcher's margin becomes a score, and scores become a path's: "log" keeps the logarithm, whose sum is
// the product of the scores. Ranking by a product is done on its logarithm; `exp_at_end` turns it back.
struct ScoreForm {
  Transform transform = Transform::hinge;
  int power = 3;           // of the hinge
  bool log = true;
  bool exp_at_end = true;
};

struct Scored {
  float score;
  int32_t id;
  bool operator<(const Scored& o) const { return score != o.score ? score > o.score : id < o.id; }
};

// The best `capacity` of what is offered, by (score descending, id ascending).
class Best {
 public:
  void reset(int64_t capacity) {
    capacity_ = (size_t)capacity;
    items_.clear();
    floor_ = -INFINITY;
  }
  bool may_enter(float score) const { return score >= floor_; }
  void offer(Scored s) {
    items_.push_back(s);
    if (items_.size() >= 4 * capacity_ + 16) cut();
  }
  // Sorted best first.
  std::vector<Scored>& finish() {
    cut();
    std::sort(items_.begin(), items_.end());
    return items_;
  }

 private:
  void cut() {
    if (items_.size() <= capacity_) return;
    std::nth_element(items_.begin(), items_.begin() + (capacity_ - 1), items_.end());
    items_.resize(capacity_);
    floor_ = items_[capacity_ - 1].score;
  }
  size_t capacity_ = 0;
  float floor_ = -INFINITY;
  std::vector<Scored> items_;
};

struct Model {
  std::vector<PackedLevel> levels;
  Span<const int32_t> labels;  // leaf position -> label
  ScoreForm form;
  float path_weight = 1.0f;  // of the path above a label, beside the label's own matcher
};

struct Query {
  Span<const int32_t> features;
  Span<const float> values;
  Span<const float> dense;  // as long as the model's dense columns are many
};

// Models come from files: what they say is not taken on trust.
struct DamagedModel : std::invalid_argument {
  DamagedModel() : std::invalid_argument("the packed model is damaged: copy or save it again") {}
};

namespace detail {

XMC_INLINE float transformed(float z, const ScoreForm& form) {
  if (form.transform == Transform::identity) return z;
  float log_score;
  if (form.transform == Transform::sigmoid) {
    // log(1 / (1 + exp(-z))), from the side that does not overflow
    const double t = exact_exp(z > 0 ? -(double)z : (double)z);
    log_score = (float)((z > 0 ? 0.0 : (double)z) - exact_log(1.0 + t));
  } else {
    const float gap = z < 1.0f ? 1.0f - z : 0.0f;
    float power = gap;
    for (int i = 1; i < form.power; ++i) power *= gap;
    log_score = -power;
  }
  return form.log ? log_score : (float)exact_exp(log_score);
}

template <int kPower>
XMC_INLINE void add_log_hinge(float* scores, int64_t n, float above) {
  for (int64_t c = 0; c < n; ++c) {
    const float z = scores[c], gap = z < 1.0f ? 1.0f - z : 0.0f;
    float power = gap;
    for (int i = 1; i < kPower; ++i) power *= gap;
    scores[c] = above - power;
  }
}

// Margins become scores of paths, in place; `above` is the score of the path so far.
XMC_INLINE void path_scores(float* scores, int64_t n, float above, const ScoreForm& form) {
  if (form.transform == Transform::hinge && form.log) switch (form.power) {
      case 1: return add_log_hinge<1>(scores, n, above);
      case 2: return add_log_hinge<2>(scores, n, above);
      case 3: return add_log_hinge<3>(scores, n, above);
      case 4: return add_log_hinge<4>(scores, n, above);
    }
  for (int64_t c = 0; c < n; ++c) scores[c] = above + transformed(scores[c], form);
}

// Opening a model reads none of its arrays: the pointers of a node are looked at before they are followed.
XMC_INLINE bool inside(Span<const int64_t> ptr, int64_t node, int64_t size) {
  return ptr[node] >= 0 && ptr[node] <= ptr[node + 1] && ptr[node + 1] <= size;
}

XMC_INLINE void check_node(const PackedLevel& level, int64_t node) {
  if (node < 0 || node >= level.nodes() || !inside(level.child_ptr, node, level.bias.size()) ||
      !inside(level.slot_ptr, node, level.slots.size()) || level.slot_ptr[node] == level.slot_ptr[node + 1] ||
      !inside(level.entry_ptr, node, level.entries.size()) ||
      level.dense.blocks.size() != level.bias.size() * level.dense.width)
    throw DamagedModel();
}

// Where a query meets a node: the first entry of each feature both have, and the query's value.
struct Meeting {
  const PackedEntry* entry;
  float value;
};

// Finds the meetings and fetches their entries ahead; returns how many there are.
XMC_INLINE int64_t meet(const PackedLevel& level, int64_t node, const Query& q, Meeting* out) {
  const auto table = level.slots.slice(level.slot_ptr[node], level.slot_ptr[node + 1]);
  const auto entries = level.entries.slice(level.entry_ptr[node], level.entry_ptr[node + 1]);
  const int64_t size = table.size();
  int64_t found = 0;
  for (int64_t p = 0; p < q.features.size(); ++p) {
    const int32_t feature = q.features[p];
    int64_t i = home_slot(feature, size), left = size;
    while (table[i].feature != feature && table[i].feature >= 0) {
      if (++i == size) i = 0;
      if (--left == 0) throw DamagedModel();
    }
    if (table[i].feature < 0) continue;
    if (table[i].first >= (uint64_t)entries.size()) throw DamagedModel();
    const PackedEntry* entry = entries.ptr + table[i].first;
    __builtin_prefetch(entry);
    out[found++] = {entry, q.values[p]};
  }
  return found;
}

// out[c] = margin of child c of `node`; `dense`: what dense columns add to it, or null.
XMC_INLINE void node_margins(const PackedLevel& level, int64_t node, const Query& q, const float* dense,
                             std::vector<Meeting>& meetings, std::vector<float>& out) {
  const int64_t first = level.child_ptr[node];
  const auto bias = level.bias.slice(first, level.child_ptr[node + 1]);
  if ((int64_t)meetings.size() < q.features.size()) meetings.resize((size_t)q.features.size());
  const int64_t found = meet(level, node, q, meetings.data());
  out.assign(bias.begin(), bias.end());
  const PackedEntry* end = level.entries.ptr + level.entry_ptr[node + 1];
  const uint32_t children = (uint32_t)bias.size();
  for (int64_t m = 0; m < found; ++m) {
    const float x = meetings[m].value;
    for (const PackedEntry* e = meetings[m].entry;; ++e) {
      const uint32_t child = e->child & ~kLastEntry;
      if (e >= end || child >= children) throw DamagedModel();
      out[child] += x * e->weight;
      if (e->child & kLastEntry) break;
    }
  }
  if (dense)
    for (uint32_t c = 0; c < children; ++c) out[c] += dense[c];
}

XMC_INLINE void prefetch_node(const PackedLevel& level, int64_t node, const Query& q) {
  check_node(level, node);
  const Slot* table = level.slots.ptr + level.slot_ptr[node];
  const int64_t size = level.slot_ptr[node + 1] - level.slot_ptr[node];
  for (int64_t p = 0; p < q.features.size(); ++p) __builtin_prefetch(table + home_slot(q.features[p], size));
  const float* bias = level.bias.ptr + level.child_ptr[node];
  for (int64_t c = level.child_ptr[node]; c < level.child_ptr[node + 1]; c += 16, bias += 16) __builtin_prefetch(bias);
}

}  // namespace detail

// Working memory of one thread.
class Searcher {
 public:
  // Top `k` labels of each query, through at most `beam` nodes a level. labels/scores: [queries x k], best
  // first, filled up with -1 / -infinity.
  void search(const Model& model, const std::vector<Query>& queries, int64_t beam, int64_t k, int32_t* labels,
              float* scores) {
    const size_t n = queries.size();
    best_.resize(std::max(best_.size(), n));
    visits_.clear();
    for (size_t i = 0; i < n; ++i) visits_.push_back({0, (int32_t)i, 0.0f});
    for (size_t t = 0; t < model.levels.size(); ++t) {
      const bool leaves = t + 1 == model.levels.size();
      for (size_t i = 0; i < n; ++i) best_[i].reset(leaves ? k : beam);
      if (n > 1) std::sort(visits_.begin(), visits_.end());
      visit_nodes(model, t, queries, leaves);
      visits_.clear();
      if (leaves) break;
      const float weight = weight_above(model, t + 1);
      for (size_t i = 0; i < n; ++i)
        for (const Scored& s : best_[i].finish()) visits_.push_back({s.id, (int32_t)i, weight * s.score});
    }
    for (size_t i = 0; i < n; ++i) write(model.form, best_[i].finish(), k, labels + i * k, scores + i * k);
  }

  // Scores of the given leaf positions (increasing) of one query: their paths, and no others.
  void score_candidates(const Model& model, const Query& query, Span<const int32_t> positions, float* scores) {
    const int64_t depth = (int64_t)model.levels.size();
    paths_.assign((size_t)depth + 1, {});
    paths_[depth].assign(positions.begin(), positions.end());
    for (int64_t t = depth - 1; t > 0; --t) parents(model.levels[t], paths_[t + 1], paths_[t]);
    paths_[0].assign(1, 0);
    std::vector<float> above(1, 0.0f), here;
    for (int64_t t = 0; t < depth; ++t) {
      const PackedLevel& level = model.levels[t];
      const auto& wanted = paths_[t + 1];
      here.resize(wanted.size());
      for (float& score : above) score *= weight_above(model, (size_t)t);
      size_t at = 0;
      for (size_t j = 0; j < paths_[t].size() && at < wanted.size(); ++j) {
        detail::check_node(level, paths_[t][j]);
        const int64_t first = level.child_ptr[paths_[t][j]], last = level.child_ptr[paths_[t][j] + 1];
        if (wanted[at] >= last) continue;
        if (wanted[at] < first) throw DamagedModel();
        const float* x = query.dense.ptr;
        if (x) dense_.multiply(level.dense, first, last, 1, &x);
        detail::node_margins(level, paths_[t][j], query, x ? dense_.of(0) : nullptr, meetings_, margins_);
        detail::path_scores(margins_.data(), last - first, above[j], model.form);
        for (; at < wanted.size() && wanted[at] < last; ++at) here[at] = margins_[wanted[at] - first];
      }
      above.swap(here);
    }
    for (int64_t i = 0; i < positions.size(); ++i)
      scores[i] = model.form.exp_at_end ? (float)exact_exp(above[i]) : above[i];
  }

 private:
  // What scores of nodes above level t are multiplied with there.
  static float weight_above(const Model& model, size_t t) {
    return t + 1 == model.levels.size() ? model.path_weight : 1.0f;
  }

  struct Visit {
    int32_t node, query;
    float score;
    bool operator<(const Visit& o) const { return node != o.node ? node < o.node : query < o.query; }
  };

  // Node by node: queries that meet at one use its dense weights together.
  void visit_nodes(const Model& model, size_t t, const std::vector<Query>& queries, bool leaves) {
    const PackedLevel& level = model.levels[t];
    for (size_t first = 0, last; first < visits_.size(); first = last) {
      const int32_t node = visits_[first].node;
      detail::check_node(level, node);
      const float* x[kQueriesTogether];
      for (last = first; last < visits_.size() && visits_[last].node == node && last - first < kQueriesTogether; ++last)
        x[last - first] = queries[visits_[last].query].dense.ptr;
      const bool dense = level.dense.width > 0;
      if (dense) dense_.multiply(level.dense, level.child_ptr[node], level.child_ptr[node + 1], (int)(last - first), x);
      for (size_t v = first; v < last; ++v) {
        if (v + 1 < visits_.size())
          detail::prefetch_node(level, visits_[v + 1].node, queries[visits_[v + 1].query]);
        visit(model, t, visits_[v], queries[visits_[v].query], dense ? dense_.of((int)(v - first)) : nullptr, leaves);
      }
    }
  }

  void visit(const Model& model, size_t t, const Visit& v, const Query& query, const float* dense, bool leaves) {
    const PackedLevel& level = model.levels[t];
    const int64_t first = level.child_ptr[v.node], children = level.child_ptr[v.node + 1] - first;
    detail::node_margins(level, v.node, query, dense, meetings_, margins_);
    Best& best = best_[v.query];
    detail::path_scores(margins_.data(), children, v.score, model.form);
    for (int64_t c = 0; c < children; ++c) {
      if (!best.may_enter(margins_[c])) continue;
      const int32_t place = (int32_t)(first + c);
      best.offer({margins_[c], leaves ? model.labels[place] : place});
    }
  }

  static void write(const ScoreForm& form, const std::vector<Scored>& found, int64_t k, int32_t* labels,
                    float* scores) {
    for (int64_t j = 0; j < k; ++j) {
      const bool there = j < (int64_t)found.size();
      labels[j] = there ? found[j].id : -1;
      scores[j] = !there ? -INFINITY : form.exp_at_end ? (float)exact_exp(found[j].score) : found[j].score;
    }
  }

  static void parents(const PackedLevel& level, const std::vector<int32_t>& children, std::vector<int32_t>& out) {
    for (int32_t c : children) {
      const auto above = std::upper_bound(level.child_ptr.begin(), level.child_ptr.end(), (int64_t)c);
      const int32_t node = (int32_t)(above - level.child_ptr.begin() - 1);
      if (out.empty() || out.back() != node) out.push_back(node);
    }
  }

  std::vector<Best> best_;
  std::vector<Visit> visits_;
  std::vector<float> margins_;
  DenseMargins dense_;
  std::vector<detail::Meeting> meetings_;
  std::vector<std::vector<int32_t>> paths_;
};

}  // namespace xmc
