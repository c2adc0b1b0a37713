// Trains the nodes of one or more tree levels on several threads, heaviest nodes first.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "parallel.h"
#include "train_node.h"

namespace xmc {

// Shared with Python, which shows it and may ask to stop: [0] children trained, [1] stop if not 0, [2] children
// that stopped at max_sweeps.
struct Progress {
  int64_t* counters = nullptr;
  void add(int64_t children) { __atomic_fetch_add(&counters[0], children, __ATOMIC_RELAXED); }
  void add_unfinished(int children) { __atomic_fetch_add(&counters[2], (int64_t)children, __ATOMIC_RELAXED); }
  bool stop() const { return __atomic_load_n(&counters[1], __ATOMIC_RELAXED) != 0; }
};

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("training was interrupted") {}
};

class LevelsTrainer {
 public:
  std::vector<LevelProblem> levels;
  std::vector<std::vector<NodeMatchers>> trained;  // [level][node]

  void run(int threads, Progress progress) {
    trained.assign(levels.size(), {});
    std::vector<Task> tasks;
    for (size_t t = 0; t < levels.size(); ++t) {
      const int64_t nodes = levels[t].child_ptr.size() - 1;
      trained[t].resize((size_t)nodes);
      for (int64_t j = 0; j < nodes; ++j) tasks.push_back(task(t, j));
    }
    std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
      if (a.load != b.load) return a.load > b.load;
      return a.level != b.level ? a.level < b.level : a.node < b.node;
    });
    std::vector<std::unique_ptr<Worker>> workers;
    threads = (int)std::min<int64_t>(std::max(threads, 1), std::max<int64_t>(widest(tasks), (int64_t)tasks.size()));
    for (int w = 0; w < threads; ++w) workers.push_back(std::make_unique<Worker>(columns()));
    // A node with more groups than threads is shared out by group, the others whole.
    auto wide = [&](const Task& t) { return threads > 1 && t.groups >= 2 * threads && t.load > kWideLoad; };
    std::vector<Task> whole;
    for (const Task& t : tasks) {
      if (wide(t)) train_wide(t, threads, workers, progress);
      else whole.push_back(t);
    }
    parallel_for((int64_t)whole.size(), threads, [&](int64_t i, int w) { train(whole[i], *workers[w], progress); });
  }

  int64_t weights(int64_t level) const {
    int64_t count = 0;
    for (const auto& node : trained[level])
      for (const auto& child : node.weights) count += (int64_t)child.size();
    return count;
  }

  // Writes level's matchers as CSR with the weights of dense columns beside, one row a child, and frees them as it goes.
  // They were many small pieces, which the C library keeps for later: once they are many, they go back to the system,
  // because the process may live long. Not each time: the next unit of a task would have to fetch them again.
  void write(int64_t level, int64_t* indptr, int32_t* indices, float* data, float* dense, float* bias) {
    int64_t at = 0, child = 0;
    indptr[0] = 0;
    for (auto& node : trained[level]) {
      for (size_t c = 0; c < node.weights.size(); ++c) {
        for (const Weight& w : node.weights[c]) {
          indices[at] = w.feature;
          data[at++] = w.value;
        }
        bias[child] = node.bias[c];
        indptr[++child] = at;
      }
      dense = std::copy(node.dense.begin(), node.dense.end(), dense);
      node = NodeMatchers{};
    }
    give_back(at * (int64_t)sizeof(Weight));
  }

 private:
  static constexpr int64_t kWideLoad = 1 << 16;
  static constexpr int64_t kFreed = 128 << 20;  // bytes

  static void give_back(int64_t freed) {
    static std::atomic<int64_t> so_far{0};
    if ((so_far += freed) < kFreed) return;
    so_far = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }

  struct Task {
    size_t level;
    int64_t node, groups, load;
  };
  struct Worker {
    NodeTrainer trainer;
    LaneProblem lane;
    explicit Worker(int64_t columns) : trainer(columns) {}
  };

  int64_t columns() const {
    int64_t most = 0;
    for (const auto& l : levels) most = std::max(most, l.X.cols - l.X.width);
    return most;
  }

  static int64_t widest(const std::vector<Task>& tasks) {
    int64_t groups = 1;
    for (const Task& t : tasks) groups = std::max(groups, t.groups);
    return groups;
  }

  Task task(size_t t, int64_t node) const {
    const auto& l = levels[t];
    const int64_t children = l.child_ptr[node + 1] - l.child_ptr[node];
    const int64_t rows = l.node_rows_ptr[node + 1] - l.node_rows_ptr[node];
    const int64_t groups = NodeTrainer::groups_of(children);
    return {t, node, groups, rows * (groups + 1)};
  }

  void train(const Task& t, Worker& worker, Progress progress) {
    NodeTrainer& trainer = worker.trainer;
    trainer.open(levels[t.level], t.node);
    for (int64_t g = 0; g < t.groups; ++g) {
      if (progress.stop()) throw Stopped();
      progress.add_unfinished(trainer.solve(g, worker.lane));
    }
    finish(t, trainer, progress);
  }

  void train_wide(const Task& t, int threads, std::vector<std::unique_ptr<Worker>>& workers, Progress progress) {
    NodeTrainer& trainer = workers[0]->trainer;
    trainer.open(levels[t.level], t.node);
    parallel_for(t.groups, threads, [&](int64_t g, int w) {
      if (progress.stop()) throw Stopped();
      progress.add_unfinished(trainer.solve(g, workers[w]->lane));
    });
    finish(t, trainer, progress);
  }

  void finish(const Task& t, NodeTrainer& trainer, Progress progress) {
    progress.add((int64_t)trainer.matchers().bias.size());
    trained[t.level][t.node] = std::move(trainer.matchers());
  }
};

}  // namespace xmc
