// The solver itself (solve.h says what it does). No include guard: compiled once for each instruction set. V is the
// number of 16-lane vectors solved together; every function works on one of them unless it says otherwise.
#include "dense_rows.h"
#include "lane_ops.h"
#include "solve_dense.h"
#include "solve_rows.h"

// What a sweep keeps per lane between rows.
struct SweepState {
  f32x16 high, low;  // extreme projected gradients of this sweep
  f32x16 high_before, low_before;
  i32x16 shrunk;     // examples set aside since the last full sweep
  float relaxation;
};

XMC_INLINE f32x16 signs_of(i32x16 positive) { return where(positive, all_lanes(1.0f), all_lanes(-1.0f)); }

XMC_INLINE f32x16 costs_of(const LaneProblem& p, const Example& e, int v, i32x16 positive) {
  if (e.special >= 0) return p.specials[e.special].cost[v].v;
  return where(positive, all_lanes(p.cost_positive), all_lanes(p.cost_negative));
}

// alpha moves by gradient / curvature; curvature = x.x + 1 / (2 cost) for the squared hinge, x.x for the hinge.
struct Curvature {
  f32x16 diagonal, inverse;
};

template <Loss kLoss>
XMC_INLINE Curvature curvature_of(const LaneProblem& p, const Example& e, int v, i32x16 positive) {
  float x2 = e.norm2;
  if (!(x2 > 0)) x2 = 1;  // a row without features moves no weight
  if (kLoss == Loss::hinge) return {f32x16{}, all_lanes(1.0f / x2)};
  if (e.special >= 0) {
    const f32x16 cost = p.specials[e.special].cost[v].v;
    const f32x16 diagonal = 0.5f / where(cost > 0.0f, cost, all_lanes(1.0f));
    return {diagonal, 1.0f / (diagonal + x2)};
  }
  const float up = 0.5f / p.cost_positive, down = 0.5f / p.cost_negative;
  return {where(positive, all_lanes(up), all_lanes(down)),
          where(positive, all_lanes(1.0f / (up + x2)), all_lanes(1.0f / (down + x2)))};
}

// In the first sweeps a step goes a little beyond the minimum along its coordinate (successive over-relaxation, which
// converges for any factor below 2): fewer sweeps to the same tolerance. Where many are needed, because rows are
// long, it would do harm.
constexpr float kRelaxation = 1.4f;
constexpr int kRelaxedSweeps = 20;

// Takes lanes out of the sweeps until the next full one.
XMC_INLINE void put_aside(Example& e, int v, i32x16 lanes, SweepState& s) {
  const uint32_t bits = bits_of_lanes(lanes);
  if (!bits) return;
  e.active &= ~(bits << kLanes * v);
  s.shrunk -= lanes;  // a set lane is -1
}

// What is left of a step when no lane has a dual variable above zero or wants one, as for most negatives of the
// later sweeps: the same outcome for a fraction of the work.
XMC_INLINE f32x16 rest_at_zero(Example& e, int v, f32x16 gradient, i32x16 taking_part, SweepState& s) {
  const f32x16 zero = {};
  const i32x16 set_aside = taking_part & (gradient > s.high_before), moving = taking_part & ~set_aside;
  put_aside(e, v, set_aside, s);
  s.high = where(moving, lane_max(s.high, zero), s.high);
  s.low = where(moving, lane_min(s.low, zero), s.low);
  return zero;
}

// One step on the dual variables of a hinge-type loss. Returns the change of alpha * sign; lanes that may be set
// aside until the next full sweep are cleared from the example's `active`.
template <Loss kLoss>
XMC_INLINE f32x16 hinge_step(const LaneProblem& p, Example& e, int v, f32x16 score, f32x16& signed_alpha,
                             i32x16 taking_part, SweepState& s) {
  const i32x16 positive = lanes_of_bits(e.positive >> kLanes * v);
  const f32x16 sign = signs_of(positive), zero = {}, before = signed_alpha, alpha = before * sign;
  const f32x16 gap = sign * score - 1.0f;
  if (!bits_of_lanes(taking_part & ((before != zero) | !(gap >= zero)))) return rest_at_zero(e, v, gap, taking_part, s);
  const Curvature curvature = curvature_of<kLoss>(p, e, v, positive);
  f32x16 upper = zero;
  if constexpr (kLoss == Loss::hinge) upper = costs_of(p, e, v, positive);
  const f32x16 gradient = gap + alpha * curvature.diagonal;

  const i32x16 at_zero = alpha <= zero;
  i32x16 set_aside = at_zero & (gradient > s.high_before);
  f32x16 projected = where(at_zero, lane_min(gradient, zero), gradient);
  if constexpr (kLoss == Loss::hinge) {
    const i32x16 at_upper = alpha >= upper;
    set_aside |= at_upper & (gradient < s.low_before);
    projected = where(at_upper & ~at_zero, lane_max(gradient, zero), projected);
  }
  set_aside &= taking_part;
  put_aside(e, v, set_aside, s);
  const i32x16 moving = taking_part & ~set_aside;
  s.high = where(moving, lane_max(s.high, projected), s.high);
  s.low = where(moving, lane_min(s.low, projected), s.low);

  f32x16 moved = lane_max(alpha - gradient * (s.relaxation * curvature.inverse), zero);
  if constexpr (kLoss == Loss::hinge) moved = lane_min(moved, upper);
  const i32x16 significant = (projected > 1e-12f) | (projected < -1e-12f);
  signed_alpha = where(moving & significant, moved * sign, before);
  return signed_alpha - before;
}

// One step for the logistic loss. With alpha = C / (1 + exp(t)), the optimum of the one-variable problem is
// where the margin t equals sign * w.x after the update: t - b - a (alpha(t) - alpha) = 0, increasing in t
// with slope at least 1. Newton inside a bracket.
XMC_INLINE f32x16 logistic_step(const LaneProblem& p, const Example& e, int v, f32x16 score, f32x16& signed_alpha,
                                f32x16& margin, i32x16 taking_part, SweepState& s) {
  const i32x16 positive = lanes_of_bits(e.positive >> kLanes * v);
  const f32x16 sign = signs_of(positive), cost = costs_of(p, e, v, positive), before = signed_alpha;
  const f32x16 alpha = before * sign, b = sign * score;
  const float a = e.norm2;
  const f32x16 gradient = b - margin;
  s.high = where(taking_part, lane_max(s.high, lane_max(gradient, -gradient)), s.high);
  f32x16 low = b - a * alpha, high = b + a * (cost - alpha);
  f32x16 t = lane_min(lane_max(margin, low), high);
  // A handful of steps is the rule; long rows and high costs make the bracket wide. A lane that is there stays there.
  i32x16 open = taking_part;
  for (int step = 0; step < 64 && bits_of_lanes(open); ++step) {
    const f32x16 q = sigmoid_lanes(-t), trial = cost * q;
    const f32x16 h = t - b - a * (trial - alpha);
    const f32x16 slope = 1.0f + a * trial * (1.0f - q);
    low = where(h < 0.0f, t, low);
    high = where(h > 0.0f, t, high);
    const f32x16 newton = t - h / slope;
    const i32x16 inside = (newton >= low) & (newton <= high);
    const f32x16 next = where(inside, newton, 0.5f * (low + high));
    const f32x16 moved = lane_max(next - t, t - next);
    t = where(open, next, t);
    open &= moved > 1e-5f * (1.0f + lane_max(t, -t));
  }
  signed_alpha = where(taking_part, cost * sigmoid_lanes(-t) * sign, before);
  margin = where(taking_part, t, margin);
  return signed_alpha - before;
}

// Where to start. From weights: each alpha by the relation that holds between them at the optimum; then
// w = sum alpha y x, a feasible dual point near the optimum if the weights are, so the answer is that of a cold
// start. Without weights, the logistic loss starts close to 0, because its alpha must lie inside (0, C).
template <Loss kLoss, int V>
XMC_INLINE void start_alpha(LaneProblem& p) {
  for (int64_t i = 0; i < (int64_t)p.examples.size(); ++i) {
    const Example& e = p.examples[i];
    f32x16 scores[V] = {};
    if (p.warm) {
      dot_row<V>(p, e, ~0u, scores);
      add_dense_scores<V>(p, i, scores);
    }
    for (int v = 0; v < V; ++v) {
      const i32x16 positive = lanes_of_bits(e.positive >> kLanes * v);
      const f32x16 cost = costs_of(p, e, v, positive), sign = signs_of(positive), zero = {};
      const f32x16 margin = p.warm ? sign * (scores[v] + p.w_bias[v].v * p.settings.bias) : all_lanes(16.0f);
      f32x16 alpha = zero;
      if constexpr (kLoss == Loss::squared_hinge) alpha = 2.0f * cost * lane_max(1.0f - margin, zero);
      if constexpr (kLoss == Loss::hinge) alpha = where(margin < 1.0f, cost, zero);
      if constexpr (kLoss == Loss::logistic) {
        alpha = cost * sigmoid_lanes(-margin);
        p.margin[i * V + v].v = margin;
      }
      const i32x16 used = lanes_of_bits((e.enabled & p.lanes) >> kLanes * v);
      p.alpha[i * V + v].v = where(used, alpha * sign, zero);
    }
  }
}

template <int V>
XMC_INLINE void weights_from_alpha(LaneProblem& p) {
  for (int64_t f = 0; f < p.W.size(); ++f) p.W[f].v = f32x16{};
  for (int64_t f = 0; f < p.D.size(); ++f) p.D[f].v = f32x16{};
  for (int v = 0; v < V; ++v) p.w_bias[v].v = f32x16{};
  Window<V> window;
  for (int64_t i = 0; i < (int64_t)p.examples.size(); ++i) {
    f32x16 delta[V];
    for (int v = 0; v < V; ++v) delta[v] = p.alpha[i * V + v].v;
    update_row<V>(p, p.examples[i], ~0u, delta);
    if (p.node->width) add_alpha<V>(p, window, i, delta);
  }
  add_window<V>(p, window);
}

// After a sweep: which lanes are done, which look at all examples again. Hsieh et al., algorithm 3.
template <int V>
XMC_INLINE uint32_t finish_sweep(LaneProblem& p, uint32_t running, SweepState* states) {
  uint32_t done = 0, reopen = 0;
  for (int lane = 0; lane < V * kLanes; ++lane) {
    if (!(running >> lane & 1)) continue;
    SweepState& s = states[lane / kLanes];
    const int l = lane % kLanes;
    if (p.settings.loss == Loss::logistic) {
      if (s.high[l] < p.settings.tolerance) done |= 1u << lane;
    } else if (!(s.high[l] - s.low[l] <= p.settings.tolerance)) {
      s.high_before[l] = s.high[l] > 0 ? s.high[l] : kInfinity;
      s.low_before[l] = s.low[l] < 0 ? s.low[l] : -kInfinity;
    } else if (s.shrunk[l] == 0) {
      done |= 1u << lane;
    } else {
      reopen |= 1u << lane;
      s.shrunk[l] = 0;
      s.high_before[l] = kInfinity;
      s.low_before[l] = -kInfinity;
    }
  }
  if (reopen)
    for (Example& e : p.examples) e.active |= e.enabled & reopen;
  return running & ~done;
}

// One step for all `lanes` of an example. `dense`: its scores over the dense columns, or null. Returns the lanes that
// moved, and by how much.
template <Loss kLoss, int V>
XMC_INLINE uint32_t visit(LaneProblem& p, int64_t i, uint32_t lanes, SweepState* states, const f32x16* dense,
                          f32x16* delta) {
  Example& e = p.examples[i];
  f32x16 scores[V] = {};
  row_scores<V>(p, e, i, lanes, scores);
  uint32_t changed = 0;
  for (int v = 0; v < V; ++v) {
    const uint32_t bits = lanes >> kLanes * v & 0xFFFF;
    delta[v] = f32x16{};
    if (!bits) continue;
    if (dense) scores[v] += dense[v];
    f32x16& alpha = p.alpha[i * V + v].v;
    if constexpr (kLoss == Loss::logistic)
      delta[v] = logistic_step(p, e, v, scores[v], alpha, p.margin[i * V + v].v, lanes_of_bits(bits), states[v]);
    else
      delta[v] = hinge_step<kLoss>(p, e, v, scores[v], alpha, lanes_of_bits(bits), states[v]);
    changed |= bits_of_lanes(delta[v] != 0.0f) << kLanes * v;
  }
  if (changed) update_row<V>(p, e, changed, delta);
  return changed;
}

// How far a group has come.
struct Run {
  std::vector<int32_t> order;  // of the rows; a row's second example follows its first
  Random random;
  int sweep = 0;
  uint32_t running;            // bit per lane that is not done
  SweepState states[kMostVectors];
};

// The second example of a row with a soft target; -1 = none.
XMC_INLINE int32_t twin_of(const LaneProblem& p, const Example& e) {
  return e.special < 0 ? -1 : p.specials[e.special].twin;
}

template <Loss kLoss, int V>
XMC_INLINE void sweep_rows(LaneProblem& p, Run& run, bool far) {
  const int64_t n = (int64_t)run.order.size();
  f32x16 delta[V];
  for (int64_t k = 0; k < n; ++k) {
    look_ahead<V>(p, run.order, k, run.running, far);
    const Example& e = p.examples[run.order[k]];
    if (const uint32_t lanes = e.active & run.running)
      visit<kLoss, V>(p, run.order[k], lanes, run.states, nullptr, delta);
    const int32_t twin = twin_of(p, e);
    if (twin < 0) continue;
    if (const uint32_t lanes = p.examples[twin].active & run.running)
      visit<kLoss, V>(p, twin, lanes, run.states, nullptr, delta);
  }
}

// The same for rows with dense columns (solve_dense.h).
template <Loss kLoss, int V>
XMC_INLINE void sweep_windows(LaneProblem& p, Run& run, bool far) {
  const int64_t n = (int64_t)run.order.size();
  for (int64_t first = 0; first < n; first += kWindow) {
    const int64_t last = std::min(n, first + kWindow);
    Window<V> window;
    open_window<V>(p, run.order, first, last, run.running, window);
    for (int64_t k = first; k < last; ++k) look_ahead<V>(p, run.order, k, run.running, far);
    for (int j = 0; j < window.rows; ++j)
      for (int32_t example : {window.example[j], window.twin[j]}) {
        const uint32_t lanes = example < 0 ? 0 : p.examples[example].active & run.running;
        if (!lanes) continue;
        f32x16 delta[V];
        const uint32_t changed = visit<kLoss, V>(p, example, lanes, run.states, window.scores[j], delta);
        if (changed) moved<V>(p, window, j, example == window.example[j], changed, delta);
      }
    add_window<V>(p, window);
  }
}

template <Loss kLoss, int V>
XMC_INLINE void sweep(LaneProblem& p, Run& run, bool far) {
  for (int v = 0; v < V; ++v) {
    run.states[v].high = all_lanes(-kInfinity);
    run.states[v].low = all_lanes(kInfinity);
    run.states[v].relaxation = run.sweep < kRelaxedSweeps ? kRelaxation : 1.0f;
  }
  run.random.shuffle(run.order);
  if (p.node->width) sweep_windows<kLoss, V>(p, run, far);
  else sweep_rows<kLoss, V>(p, run, far);
  run.running = finish_sweep<V>(p, run.running, run.states);
  ++run.sweep;
}

XMC_INLINE void keep_survivors(int32_t feature, f32x16 w, const int* problem_of, uint32_t lanes, LaneProblem& p) {
  const f32x16 size = lane_max(w, -w);
  for (uint32_t left = bits_of_lanes((size >= p.threshold) & (size > 0.0f)) & lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    p.kept[problem_of[l]].push_back({feature, w[l]});
  }
}

// Writes out the answers of the lanes of `done`.
inline void finish_lanes(LaneProblem& p, uint32_t done) {
  const NodeProblem& node = *p.node;
  for (int v = 0; v < p.vectors; ++v) {
    const uint32_t lanes = done >> kLanes * v & 0xFFFF;
    if (!lanes) continue;
    const int* problem_of = p.problem_of + kLanes * v;
    for (uint32_t left = lanes; left; left &= left - 1) {
      const int l = __builtin_ctz(left);
      p.bias_of[problem_of[l]] = p.w_bias[v].v[l] * p.settings.bias;
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
      const int l = __builtin_ctz(left);
      auto& dense = p.dense_of[problem_of[l]];
      dense.resize((size_t)node.width);
      for (int64_t f = 0; f < node.width; ++f) dense[f] = p.D[v * node.width + f].v[l];
    }
    for (int64_t f = 0; f < (int64_t)node.features.size(); ++f)
      keep_survivors(node.features[f], p.W[f * p.vectors + v].v, problem_of, lanes, p);
    for (int64_t r = 0; r < node.rows(); ++r) {
      if (node.single_start[r] == node.single_start[r + 1]) continue;
      const f32x16 alpha = p.row_alpha(r, v);
      for (int64_t q = node.single_start[r]; q < node.single_start[r + 1]; ++q)
        keep_survivors(node.singles[q].feature, alpha * node.singles[q].value, problem_of, lanes, p);
    }
  }
}

template <Loss kLoss, int V>
XMC_INLINE void start(LaneProblem& p, Run& run) {
  if (p.warm || kLoss == Loss::logistic) {
    start_alpha<kLoss, V>(p);
    weights_from_alpha<V>(p);
  }
  for (int v = 0; v < V; ++v) {
    run.states[v].high_before = all_lanes(kInfinity);
    run.states[v].low_before = all_lanes(-kInfinity);
    run.states[v].shrunk = i32x16{};
  }
}

// One vector with what is left of two.
inline void move_together(LaneProblem& p, Run& run) {
  finish_lanes(p, p.lanes & ~run.running);
  int lanes[kMostLanes];
  const int count = compact_lanes(p, run.running, lanes);
  SweepState moved = run.states[0];
  for (int k = 0; k < count; ++k) {
    const SweepState& from = run.states[lanes[k] / kLanes];
    const int l = lanes[k] % kLanes;
    moved.high_before[k] = from.high_before[l];
    moved.low_before[k] = from.low_before[l];
    moved.shrunk[k] = from.shrunk[l];
  }
  run.states[0] = moved;
  run.running = p.lanes;
}

template <Loss kLoss>
XMC_INLINE void solve_loss(LaneProblem& p) {
  Run run{std::vector<int32_t>((size_t)p.rows), Random(p.settings.seed), 0, p.lanes, {}};
  for (int64_t i = 0; i < p.rows; ++i) run.order[i] = (int32_t)i;
  for (Example& e : p.examples) e.active = e.enabled & p.lanes;
  // Beyond what the second-level cache holds, the next row's weights are fetched while this one is worked on.
  const auto far = [&] { return p.W.size() * (int64_t)sizeof(Lanes) > (2 << 20); };
  if (p.vectors == 2) {
    start<kLoss, 2>(p, run);
    while (__builtin_popcount(run.running) > kLanes && run.sweep < p.settings.max_sweeps)
      sweep<kLoss, 2>(p, run, far());
    if (!run.running || run.sweep == p.settings.max_sweeps) {
      p.unfinished = __builtin_popcount(run.running);
      return finish_lanes(p, p.lanes);
    }
    move_together(p, run);
  } else {
    start<kLoss, 1>(p, run);
  }
  while (run.running && run.sweep < p.settings.max_sweeps) sweep<kLoss, 1>(p, run, far());
  p.unfinished = __builtin_popcount(run.running);
  finish_lanes(p, p.lanes);
}

inline void solve(LaneProblem& p) {
  switch (p.settings.loss) {
    case Loss::squared_hinge: return solve_loss<Loss::squared_hinge>(p);
    case Loss::hinge: return solve_loss<Loss::hinge>(p);
    case Loss::logistic: return solve_loss<Loss::logistic>(p);
  }
}
