// The solver itself (solve.h says what it does). No include guard: compiled once for each instruction set.
#include "lane_ops.h"

// Everything a sweep keeps per lane between rows.
struct SweepState {
  f32x16 high, low;            // extreme projected gradients of this sweep
  f32x16 high_before, low_before;
  i32x16 shrunk;               // examples set aside since the last full sweep
};

XMC_INLINE Span<const Entry> entries_of(const LaneProblem& p, const Example& e) {
  const auto& shared = p.node->shared;
  return Span<const Entry>(shared.data(), (int64_t)shared.size()).slice(e.start, (int64_t)e.start + e.count);
}

XMC_INLINE f32x16 dot_row(const LaneProblem& p, const Example& e) {
  const Span<const Entry> row = entries_of(p, e);
  const Span<Lanes> W = p.W;
  f32x16 a = {}, b = {}, c = {}, d = {};
  int64_t q = 0;
  for (; q + 4 <= row.size(); q += 4) {
    a += W[row[q].feature].v * row[q].value;
    b += W[row[q + 1].feature].v * row[q + 1].value;
    c += W[row[q + 2].feature].v * row[q + 2].value;
    d += W[row[q + 3].feature].v * row[q + 3].value;
  }
  for (; q < row.size(); ++q) a += W[row[q].feature].v * row[q].value;
  return (a + b) + (c + d);
}

// w . x; `signed_alpha` is the example's own.
XMC_INLINE f32x16 row_score(const LaneProblem& p, const Example& e, f32x16 signed_alpha) {
  if (e.twin >= 0) signed_alpha += p.alpha[e.twin].v;
  return dot_row(p, e) + p.w_bias.v * p.settings.bias + signed_alpha * e.single_norm2;
}

// w += delta * x. The features that only this row has follow from alpha.
XMC_INLINE void update_row(LaneProblem& p, const Example& e, f32x16 delta) {
  const Span<const Entry> row = entries_of(p, e);
  const Span<Lanes> W = p.W;
  for (int64_t q = 0; q < row.size(); ++q) W[row[q].feature].v += delta * row[q].value;
  p.w_bias.v += delta * p.settings.bias;
}

XMC_INLINE f32x16 costs_of(const LaneProblem& p, const Example& e, i32x16 positive) {
  if (e.costs >= 0) return p.costs[e.costs].v;
  return where(positive, all_lanes(p.cost_positive), all_lanes(p.cost_negative));
}

// alpha moves by gradient / curvature; curvature = x.x + 1 / (2 cost) for the squared hinge, x.x for the hinge.
struct Curvature {
  f32x16 diagonal, inverse;
};

template <Loss kLoss>
XMC_INLINE Curvature curvature_of(const LaneProblem& p, const Example& e, i32x16 positive) {
  float x2 = e.norm2;
  if (!(x2 > 0)) x2 = 1;  // a row without features moves no weight
  if (kLoss == Loss::hinge) return {f32x16{}, all_lanes(1.0f / x2)};
  if (e.costs >= 0) {
    const f32x16 cost = p.costs[e.costs].v;
    const f32x16 diagonal = 0.5f / where(cost > 0.0f, cost, all_lanes(1.0f));
    return {diagonal, 1.0f / (diagonal + x2)};
  }
  const float up = 0.5f / p.cost_positive, down = 0.5f / p.cost_negative;
  return {where(positive, all_lanes(up), all_lanes(down)),
          where(positive, all_lanes(1.0f / (up + x2)), all_lanes(1.0f / (down + x2)))};
}

XMC_INLINE f32x16 signs_of(i32x16 positive) { return where(positive, all_lanes(1.0f), all_lanes(-1.0f)); }

// One step on the dual variable of a hinge-type loss. Returns the change of alpha * sign; lanes that may be
// set aside until the next full sweep are cleared from the example's `active`.
template <Loss kLoss>
XMC_INLINE f32x16 hinge_step(LaneProblem& p, Example& e, int64_t index, i32x16 taking_part, SweepState& s) {
  const i32x16 positive = lanes_of_bits(e.positive);
  const f32x16 sign = signs_of(positive), zero = {}, before = p.alpha[index].v, alpha = before * sign;
  const f32x16 score = row_score(p, e, before);
  const Curvature curvature = curvature_of<kLoss>(p, e, positive);
  f32x16 upper = zero;
  if constexpr (kLoss == Loss::hinge) upper = costs_of(p, e, positive);
  const f32x16 gradient = sign * score - 1.0f + alpha * curvature.diagonal;

  const i32x16 at_zero = alpha <= zero;
  i32x16 set_aside = at_zero & (gradient > s.high_before);
  f32x16 projected = where(at_zero, lane_min(gradient, zero), gradient);
  if constexpr (kLoss == Loss::hinge) {
    const i32x16 at_upper = alpha >= upper;
    set_aside |= at_upper & (gradient < s.low_before);
    projected = where(at_upper & ~at_zero, lane_max(gradient, zero), projected);
  }
  set_aside &= taking_part;
  if (const uint32_t bits = bits_of_lanes(set_aside)) {
    e.active &= (uint16_t)~bits;
    s.shrunk -= set_aside;  // a set lane is -1
  }
  const i32x16 moving = taking_part & ~set_aside;
  s.high = where(moving, lane_max(s.high, projected), s.high);
  s.low = where(moving, lane_min(s.low, projected), s.low);

  f32x16 moved = lane_max(alpha - gradient * curvature.inverse, zero);
  if constexpr (kLoss == Loss::hinge) moved = lane_min(moved, upper);
  const i32x16 significant = (projected > 1e-12f) | (projected < -1e-12f);
  const f32x16 after = where(moving & significant, moved * sign, before);
  p.alpha[index].v = after;
  return after - before;
}

// One step for the logistic loss. With alpha = C / (1 + exp(t)), the optimum of the one-variable problem is
// where the margin t equals sign * w.x after the update: t - b - a (alpha(t) - alpha) = 0, increasing in t
// with slope at least 1. Newton inside a bracket.
XMC_INLINE f32x16 logistic_step(LaneProblem& p, const Example& e, int64_t index, i32x16 taking_part, SweepState& s) {
  const i32x16 positive = lanes_of_bits(e.positive);
  const f32x16 sign = signs_of(positive), cost = costs_of(p, e, positive), before = p.alpha[index].v;
  const f32x16 alpha = before * sign, margin = p.margin[index].v, b = sign * row_score(p, e, before);
  const float a = e.norm2;
  const f32x16 gradient = b - margin;
  s.high = where(taking_part, lane_max(s.high, lane_max(gradient, -gradient)), s.high);
  f32x16 low = b - a * alpha, high = b + a * (cost - alpha);
  f32x16 t = lane_min(lane_max(margin, low), high);
  for (int step = 0; step < 8; ++step) {
    const f32x16 q = sigmoid_lanes(-t), trial = cost * q;
    const f32x16 h = t - b - a * (trial - alpha);
    const f32x16 slope = 1.0f + a * trial * (1.0f - q);
    low = where(h < 0.0f, t, low);
    high = where(h > 0.0f, t, high);
    const f32x16 newton = t - h / slope;
    const i32x16 inside = (newton >= low) & (newton <= high);
    t = where(inside, newton, 0.5f * (low + high));
  }
  const f32x16 after = where(taking_part, cost * sigmoid_lanes(-t) * sign, before);
  p.margin[index].v = where(taking_part, t, margin);
  p.alpha[index].v = after;
  return after - before;
}

// alpha from weights by the relation that holds between them at the optimum, then w = sum alpha y x: a
// feasible dual point near the optimum if the weights are, so the answer is that of a cold start.
template <Loss kLoss>
XMC_INLINE void start_from_weights(LaneProblem& p) {
  for (int64_t i = 0; i < (int64_t)p.examples.size(); ++i) {
    const Example& e = p.examples[i];
    const i32x16 positive = lanes_of_bits(e.positive);
    const f32x16 cost = costs_of(p, e, positive), zero = {};
    const f32x16 sign = signs_of(positive), margin = sign * row_score(p, e, zero);
    f32x16 alpha = zero;
    if constexpr (kLoss == Loss::squared_hinge) alpha = 2.0f * cost * lane_max(1.0f - margin, zero);
    if constexpr (kLoss == Loss::hinge) alpha = where(margin < 1.0f, cost, zero);
    if constexpr (kLoss == Loss::logistic) {
      alpha = cost * sigmoid_lanes(-margin);
      p.margin[i].v = margin;
    }
    p.alpha[i].v = where(lanes_of_bits(e.enabled & p.lanes), alpha * sign, zero);
  }
}

// Logistic only: alpha must lie inside (0, C); start close to 0.
XMC_INLINE void start_near_zero(LaneProblem& p) {
  for (int64_t i = 0; i < (int64_t)p.examples.size(); ++i) {
    const Example& e = p.examples[i];
    const i32x16 positive = lanes_of_bits(e.positive);
    const f32x16 alpha = costs_of(p, e, positive) * sigmoid_lanes(all_lanes(-16.0f)) * signs_of(positive);
    p.margin[i].v = all_lanes(16.0f);
    p.alpha[i].v = where(lanes_of_bits(e.enabled & p.lanes), alpha, f32x16{});
  }
}

XMC_INLINE void weights_from_alpha(LaneProblem& p) {
  for (int64_t f = 0; f < p.W.size(); ++f) p.W[f].v = f32x16{};
  p.w_bias.v = f32x16{};
  for (int64_t i = 0; i < (int64_t)p.examples.size(); ++i) update_row(p, p.examples[i], p.alpha[i].v);
}

XMC_INLINE void prefetch_row(const LaneProblem& p, const Example& e, int64_t index) {
  const char* first = (const char*)(p.node->shared.data() + e.start);
  const char* last = first + (int64_t)e.count * (int64_t)sizeof(Entry);
  for (; first < last; first += 64) __builtin_prefetch(first);
  __builtin_prefetch(&p.alpha.ptr[index], 1);
}

XMC_INLINE void prefetch_weights(const LaneProblem& p, const Example& e) {
  const Entry* row = p.node->shared.data() + e.start;
  for (int32_t q = 0; q < e.count; ++q) __builtin_prefetch(&p.W.ptr[row[q].feature], 1);
}

XMC_INLINE void look_ahead(const LaneProblem& p, const std::vector<int32_t>& order, int64_t k, uint32_t running) {
  const int64_t n = (int64_t)order.size();
  if (k + 8 < n) __builtin_prefetch(&p.examples[order[k + 8]]);
  if (k + 4 < n) {
    const Example& e = p.examples[order[k + 4]];
    if (e.active & running) prefetch_row(p, e, order[k + 4]);
  }
  if (k + 1 < n) {
    const Example& e = p.examples[order[k + 1]];
    if (e.active & running) prefetch_weights(p, e);
  }
}

// After a sweep: which lanes are done, which look at all examples again. Hsieh et al., algorithm 3.
inline uint32_t finish_sweep(LaneProblem& p, uint32_t running, SweepState& s) {
  uint32_t done = 0, reopen = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(running >> l & 1)) continue;
    if (p.settings.loss == Loss::logistic) {
      if (s.high[l] < p.settings.tolerance) done |= 1u << l;
      continue;
    }
    if (s.high[l] - s.low[l] <= p.settings.tolerance) {
      if (s.shrunk[l] == 0) {
        done |= 1u << l;
        continue;
      }
      reopen |= 1u << l;
      s.shrunk[l] = 0;
      s.high_before[l] = kInfinity;
      s.low_before[l] = -kInfinity;
    } else {
      s.high_before[l] = s.high[l] > 0 ? s.high[l] : kInfinity;
      s.low_before[l] = s.low[l] < 0 ? s.low[l] : -kInfinity;
    }
  }
  if (reopen)
    for (Example& e : p.examples) e.active |= e.enabled & (uint16_t)reopen;
  return running & ~done;
}

template <Loss kLoss>
XMC_INLINE void solve_lanes(LaneProblem& p) {
  const int64_t n = (int64_t)p.examples.size();
  if (p.warm) {
    start_from_weights<kLoss>(p);
    weights_from_alpha(p);
  } else if (kLoss == Loss::logistic) {
    start_near_zero(p);
    weights_from_alpha(p);
  }
  std::vector<int32_t> order(n);
  for (int64_t i = 0; i < n; ++i) {
    order[i] = (int32_t)i;
    p.examples[i].active = p.examples[i].enabled & (uint16_t)p.lanes;
  }
  SweepState s;
  s.high_before = all_lanes(kInfinity);
  s.low_before = all_lanes(-kInfinity);
  s.shrunk = i32x16{};
  uint32_t running = p.lanes;
  Random random(p.settings.seed);
  // Beyond what the second-level cache holds, fetch what the next rows need while working on this one.
  const bool far = p.W.size() * (int64_t)sizeof(Lanes) > (256 << 10);
  for (p.sweeps = 0; p.sweeps < p.settings.max_sweeps && running; ++p.sweeps) {
    s.high = all_lanes(-kInfinity);
    s.low = all_lanes(kInfinity);
    random.shuffle(order);
    for (int64_t k = 0; k < n; ++k) {
      if (far) look_ahead(p, order, k, running);
      const int64_t i = order[k];
      Example& e = p.examples[i];
      const uint32_t lanes = e.active & running;
      if (!lanes) continue;
      const i32x16 taking_part = lanes_of_bits(lanes);
      f32x16 delta;
      if constexpr (kLoss == Loss::logistic)
        delta = logistic_step(p, e, i, taking_part, s);
      else
        delta = hinge_step<kLoss>(p, e, i, taking_part, s);
      if (bits_of_lanes(delta != 0.0f)) update_row(p, e, delta);
    }
    running = finish_sweep(p, running, s);
  }
}

inline void solve(LaneProblem& p) {
  switch (p.settings.loss) {
    case Loss::squared_hinge: return solve_lanes<Loss::squared_hinge>(p);
    case Loss::hinge: return solve_lanes<Loss::hinge>(p);
    case Loss::logistic: return solve_lanes<Loss::logistic>(p);
  }
}

XMC_INLINE void keep_survivors(int32_t feature, f32x16 w, uint32_t lanes, float threshold, std::vector<Weight>* out) {
  const f32x16 size = lane_max(w, -w);
  for (uint32_t left = bits_of_lanes((size >= threshold) & (size > 0.0f)) & lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    out[l].push_back({feature, w[l]});
  }
}

inline void survivors(const LaneProblem& p, float threshold, std::vector<Weight>* out) {
  const NodeProblem& node = *p.node;
  for (int64_t f = 0; f < p.W.size(); ++f) keep_survivors(node.features[f], p.W[f].v, p.lanes, threshold, out);
  for (int64_t r = 0; r < node.rows(); ++r) {
    if (node.single_start[r] == node.single_start[r + 1]) continue;
    const f32x16 alpha = p.row_alpha(r);
    for (int64_t q = node.single_start[r]; q < node.single_start[r + 1]; ++q)
      keep_survivors(node.singles[q].feature, alpha * node.singles[q].value, p.lanes, threshold, out);
  }
}
