// A balanced label tree, top down: a node with B children is halved by 2-means until B parts are left. The
// shape (which node has how many children) is given; here it is decided which labels go where.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <time.h>

#include "label_rows.h"
#include "parallel.h"
#include "random.h"
#include "two_means.h"

namespace xmc {

// Levels of clusters, root first. Nodes are numbered as in the whole tree when this is a part of one, so
// that a sub-tree built alone is the sub-tree of the whole.
struct TreeShape {
  std::vector<Span<const int64_t>> child_ptr;  // level t to level t + 1, from 0 in the part at hand
  std::vector<int64_t> first;                  // number in the whole tree of each level's first node
  int root_level = 0;
  int stop = 0;  // the level at which to stop; the leaf clusters' own for all of the tree

  int last() const { return (int)child_ptr.size(); }
  // Leaf clusters below the nodes [a, b) of a level.
  int64_t leaves(int level, int64_t a, int64_t b) const {
    for (; level < last(); ++level) {
      a = child_ptr[level][a];
      b = child_ptr[level][b];
    }
    return b - a;
  }
};

struct TreeSettings {
  SplitSettings split;
  uint64_t seed = 0;
  Span<const double> keep;     // by level of the children: share of the labels that its iterations read
  Span<const uint8_t> dense;   // by level of the children: centres over all features of the rows at hand
};

// CPU time of the calling thread.
inline double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct LevelStats {
  double seconds = 0.0;  // of the worker that owns the node; helping threads are not counted
  int64_t splits = 0, passes = 0, centre_length = 0;
};

// Part of a level: nodes [a, b), to be told apart, and their labels.
struct TreePart {
  int level;
  int64_t a, b;
  int64_t position;                     // of its first label among the leaves
  std::shared_ptr<RowStore> store;      // keeps `rows` alive
  LabelRows rows;
  std::shared_ptr<std::vector<int32_t>> source;  // row of Z behind each of `rows`
  std::vector<int32_t> members;         // which of `rows`, in label order
};

// What one worker reuses from node to node.
struct TreeWorker {
  TwoMeans<int32_t> narrow;
  TwoMeans<int64_t> wide;
  FeatureCompactor compactor;
  std::vector<uint8_t> left;
  std::vector<double> chance;
  std::vector<LevelStats> stats;
};

class TreeBuilder {
 public:
  TreeBuilder(const TreeShape& shape, const TreeSettings& settings, Span<const int64_t> labels,
              Span<int32_t> order, Span<int64_t> leaf_size)
      : shape_(shape), settings_(settings), labels_(labels), order_(order), leaf_size_(leaf_size) {}

  std::vector<LevelStats> build(const CsrView& z) {
    const int threads = std::max(1, settings_.split.threads);
    workers_.resize(threads);
    for (auto& w : workers_) w.stats.resize(shape_.last() + 1);
    std::vector<TreePart> parts;
    parts.push_back(whole(z));
    // Few nodes: several threads on each. Then a sub-tree per worker, depth first, heaviest first.
    while (threads > 1 && !parts.empty() && (int64_t)parts.size() < 8 * threads) parts = halve_all(parts, threads);
    parallel_for(parts.size(), threads, [&](int64_t i, int worker) { grow(std::move(parts[i]), workers_[worker]); });
    std::vector<LevelStats> stats(shape_.last() + 1);
    for (const auto& w : workers_)
      for (size_t t = 0; t < stats.size(); ++t) {
        stats[t].seconds += w.stats[t].seconds;
        stats[t].splits += w.stats[t].splits;
        stats[t].passes += w.stats[t].passes;
        stats[t].centre_length += w.stats[t].centre_length;
      }
    return stats;
  }

 private:
  TreePart whole(const CsrView& z) {
    TreePart out{0, 0, 1, 0, stores_.take(), {}, std::make_shared<std::vector<int32_t>>(), {}};
    out.rows = load_rows(z, *out.store);
    for (int64_t r = 0; r < z.rows(); ++r) out.members.push_back((int32_t)r);
    *out.source = out.members;
    return out;
  }

  // One round of the top of the tree; the parts come out with the larger ones first.
  std::vector<TreePart> halve_all(std::vector<TreePart>& parts, int threads) {
    std::vector<std::vector<TreePart>> halves(parts.size());
    const int outer = std::min<int>(threads, (int)parts.size()), inner = std::max(1, threads / outer);
    parallel_for(parts.size(), outer, [&](int64_t i, int worker) {
      if (settle(parts[i])) return;
      auto [left, right] = halve(parts[i], workers_[worker], inner);
      parts[i] = TreePart{};
      halves[i].push_back(std::move(left));
      halves[i].push_back(std::move(right));
    });
    std::vector<TreePart> out;
    for (auto& pair : halves)
      for (auto& part : pair) out.push_back(std::move(part));
    std::stable_sort(out.begin(), out.end(), [](const TreePart& x, const TreePart& y) {
      return x.members.size() > y.members.size();
    });
    return out;
  }

  void grow(TreePart part, TreeWorker& worker) {
    if (settle(part)) return;
    auto [left, right] = halve(part, worker, 1);
    part = TreePart{};
    grow(std::move(left), worker);
    grow(std::move(right), worker);
  }

  // Goes down while there is one node only; true if that is where to stop, and its labels are then written.
  bool settle(TreePart& part) {
    while (part.b - part.a == 1 && part.level < shape_.stop) {
      const Span<const int64_t> ptr = shape_.child_ptr[part.level];
      const int64_t node = part.a;
      part.a = ptr[node];
      part.b = ptr[node + 1];
      ++part.level;
    }
    if (part.b - part.a > 1) return false;
    for (size_t i = 0; i < part.members.size(); ++i)
      order_[part.position + (int64_t)i] = (*part.source)[part.members[i]];
    leaf_size_[part.a] = (int64_t)part.members.size();
    return true;
  }

  std::pair<TreePart, TreePart> halve(TreePart& part, TreeWorker& worker, int threads) {
    const double started = thread_seconds();
    if (!settings_.dense[part.level] && worth_compacting(part)) compact(part, worker);
    const int64_t n = part.members.size(), middle = (part.a + part.b) / 2;
    const int64_t n_left = left_size(part, middle);
    worker.left.resize(n);
    worker.chance.resize(n);
    for (int64_t i = 0; i < n; ++i)
      worker.chance[i] = (double)(mix(settings_.seed ^ mix(labels_[(*part.source)[part.members[i]]])) >> 11) * 0x1p-53;
    SplitSettings split = settings_.split;
    split.threads = threads;
    split.keep = settings_.keep[part.level];
    const Span<const int32_t> members(part.members.data(), n);
    const Span<const double> chance(worker.chance.data(), n);
    const bool wide = needs_wide_sums(part.rows, members);
    const int passes =
        wide ? worker.wide.split(part.rows, members, chance, n_left, seed_of(part), split, Span<uint8_t>(worker.left))
             : worker.narrow.split(part.rows, members, chance, n_left, seed_of(part), split, Span<uint8_t>(worker.left));
    auto halves = divide(part, middle, n_left, worker.left);
    LevelStats& stats = worker.stats[part.level];
    stats.seconds += thread_seconds() - started;
    ++stats.splits;
    stats.passes += passes;
    stats.centre_length += part.rows.features;
    return halves;
  }

  static std::pair<TreePart, TreePart> divide(const TreePart& part, int64_t middle, int64_t n_left,
                                              const std::vector<uint8_t>& goes_left) {
    TreePart left{part.level, part.a, middle, part.position, part.store, part.rows, part.source, {}};
    TreePart right{part.level, middle, part.b, part.position + n_left, part.store, part.rows, part.source, {}};
    left.members.reserve(n_left);
    right.members.reserve(part.members.size() - n_left);
    for (size_t i = 0; i < part.members.size(); ++i)
      (goes_left[i] ? left : right).members.push_back(part.members[i]);
    return {std::move(left), std::move(right)};
  }

  // Labels for the left nodes, such that leaf clusters below differ by one label at most: with n = q c + r
  // labels for c clusters, each side gets q for each of its clusters and its share of the r.
  int64_t left_size(const TreePart& part, int64_t middle) const {
    const int64_t clusters = shape_.leaves(part.level, part.a, part.b);
    const int64_t on_left = shape_.leaves(part.level, part.a, middle);
    const int64_t n = part.members.size();
    return n / clusters * on_left + n % clusters * on_left / clusters;
  }

  uint64_t seed_of(const TreePart& part) const {
    const int64_t first = shape_.first[part.level];
    uint64_t hash = mix(settings_.seed);
    for (int64_t x : {(int64_t)(shape_.root_level + part.level), first + part.a, first + part.b})
      hash = mix(hash ^ (uint64_t)x);
    return hash;
  }

  // While tables miss the cache, every halving pays; after that, every second.
  static bool worth_compacting(const TreePart& part) {
    return part.rows.features > kCachedFeatures || (int64_t)part.members.size() * 4 <= part.rows.count() ||
           (int64_t)part.members.size() == part.rows.count();
  }

  void compact(TreePart& part, TreeWorker& worker) {
    // All rows of a store that nobody else reads: in place.
    const bool alone = (int64_t)part.members.size() == part.rows.count() && part.store.use_count() == 1;
    std::shared_ptr<RowStore> store = alone ? part.store : stores_.take();
    part.rows = worker.compactor.compact(part.rows, Span<const int32_t>(part.members), *store);
    if (alone) {  // only the root: many of its features are one label's
      const int64_t entries = part.rows.end[part.rows.count() - 1];
      part.rows.feature = store->feature.shrunk(entries);
      part.rows.value = store->value.shrunk(entries);
    }
    auto source = std::make_shared<std::vector<int32_t>>();
    source->reserve(part.members.size());
    for (int32_t r : part.members) source->push_back((*part.source)[r]);
    for (size_t i = 0; i < part.members.size(); ++i) part.members[i] = (int32_t)i;
    part.store = store;
    part.source = source;
  }

  static constexpr int64_t kCachedFeatures = 16384;

  const TreeShape& shape_;
  const TreeSettings& settings_;
  Span<const int64_t> labels_;
  Span<int32_t> order_;
  Span<int64_t> leaf_size_;
  StorePool stores_;
  std::vector<TreeWorker> workers_;
};

}  // namespace xmc
