// What the solver works on: up to 32 one-vs-all problems over the rows of one node, a lane each.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "lanes.h"
#include "node_problem.h"
#include "random.h"

namespace xmc {

enum class Loss : int { squared_hinge = 0, hinge = 1, logistic = 2 };

struct SolverSettings {
  Loss loss = Loss::squared_hinge;
  float tolerance = 0.1f;   // stop when the projected gradients span no more than this
  int max_sweeps = 100;
  float bias = 1.0f;        // value of the constant feature; 0 = none
  uint64_t seed = 0;        // of the order in which rows are visited
};

constexpr int kMostVectors = 2;
constexpr int kMostLanes = kMostVectors * kLanes;

// One dual variable per lane: a row seen as positive or negative example by each of the lanes. All that a step
// needs besides the features, in half a cache line, because examples are visited at random.
struct Example {
  uint32_t start = 0;       // of the row's shared features
  int32_t count = 0;        // of them
  float norm2 = 0;          // of the whole row with the constant feature
  float single_norm2 = 0;   // of the features no other row has
  int32_t special = -1;     // index into LaneProblem::specials; -1 = the two uniform costs, no twin
  uint32_t positive = 0;    // bit per lane: +1, else -1
  uint32_t enabled = 0;     // bit per lane: takes part (cost above zero)
  uint32_t active = 0;      // bit per lane: enabled and not set aside
};

struct Special {
  Lanes cost[kMostVectors];
  int32_t twin = -1;        // the row's other example, if it has a soft target
};

// A weight of a trained matcher, by feature of X.
struct Weight {
  int32_t feature;
  float value;
};

struct LaneProblem {
  const NodeProblem* node = nullptr;
  SolverSettings settings;
  float cost_positive = 1, cost_negative = 1;
  float threshold = 0;            // weights below it in absolute value are dropped
  std::vector<Example> examples;  // one a row, then the negative parts of soft targets
  int64_t rows = 0;
  std::vector<Special> specials;
  int vectors = 1;                // of 16 lanes: 1 or 2
  uint32_t lanes = 0;             // bit per lane in use
  int problem_of[kMostLanes];     // which of the problems a lane works on
  // The answers, by problem: weights in no order, all weights of the dense columns, and the bias.
  std::vector<Weight> kept[kMostLanes];
  std::vector<float> dense_of[kMostLanes];
  float bias_of[kMostLanes];
  int unfinished = 0;             // problems that stopped at max_sweeps
  LaneBuffer weights, dense_weights, alphas, margins;
  // [item * vectors + vector]: weights by feature; by example, alpha with its sign and the margin (logistic only).
  Span<Lanes> W, alpha, margin;
  Span<Lanes> D;                  // weights of the dense columns: [vector * width + column], because one vector fits the
                                  // first-level cache
  Lanes w_bias[kMostVectors];
  bool warm = false;              // W and w_bias hold weights to start from

  // The weights of the dense columns of one vector.
  float* dense_lanes(int vector) const { return (float*)D.slice(vector * node->width, (vector + 1) * node->width).ptr; }

  Span<const float> dense_row(int64_t example) const {
    return node->dense_row(example < rows ? example : specials[examples[example].special].twin);
  }

  // What the features that only this row has are multiplied with to give their weights.
  f32x16 row_alpha(int64_t row, int vector) const {
    const int32_t special = examples[row].special;
    const int32_t twin = special < 0 ? -1 : specials[special].twin;
    const f32x16 own = alpha[row * vectors + vector].v;
    return twin < 0 ? own : own + alpha[(int64_t)twin * vectors + vector].v;
  }
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace xmc
