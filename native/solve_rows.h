// What the solver does to one row: scores and updates over one or two 16-lane vectors, and fetching ahead. No
// include guard: compiled once for each instruction set. `lanes` has a bit per lane; vectors without one are left
// alone. Each vector is summed in the same order whether or not the other one is.

XMC_INLINE Span<const Entry> entries_of(const LaneProblem& p, const Example& e) {
  const auto& shared = p.node->shared;
  return Span<const Entry>(shared.data(), (int64_t)shared.size()).slice(e.start, (int64_t)e.start + e.count);
}

// out[v] = w . x over the shared features for vectors FIRST to LAST - 1.
template <int V, int FIRST, int LAST>
XMC_INLINE void dot_vectors(const Span<Lanes>& W, const Span<const Entry>& row, f32x16* out) {
  f32x16 sums[4][V] = {};
  int64_t q = 0;
  for (; q + 4 <= row.size(); q += 4)
    for (int u = 0; u < 4; ++u) {
      const int64_t at = (int64_t)row[q + u].feature * V;
      for (int v = FIRST; v < LAST; ++v) sums[u][v] += W[at + v].v * row[q + u].value;
    }
  for (; q < row.size(); ++q) {
    const int64_t at = (int64_t)row[q].feature * V;
    for (int v = FIRST; v < LAST; ++v) sums[0][v] += W[at + v].v * row[q].value;
  }
  for (int v = FIRST; v < LAST; ++v) out[v] = (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]);
}

template <int V, int FIRST, int LAST>
XMC_INLINE void add_vectors(const Span<Lanes>& W, const Span<const Entry>& row, const f32x16* delta) {
  for (int64_t q = 0; q < row.size(); ++q) {
    const int64_t at = (int64_t)row[q].feature * V;
    for (int v = FIRST; v < LAST; ++v) W[at + v].v += delta[v] * row[q].value;
  }
}

template <int V>
XMC_INLINE void dot_row(const LaneProblem& p, const Example& e, uint32_t lanes, f32x16* out) {
  const Span<const Entry> row = entries_of(p, e);
  const Span<Lanes> W = p.W;
  if constexpr (V == 1) {
    dot_vectors<1, 0, 1>(W, row, out);
  } else {
    const bool low = lanes & 0xFFFF, high = lanes >> kLanes;
    if (low && high) dot_vectors<2, 0, 2>(W, row, out);
    else if (low) dot_vectors<2, 0, 1>(W, row, out);
    else dot_vectors<2, 1, 2>(W, row, out);
  }
}

// w . x of example i, with the constant feature and the features that only this row has.
template <int V>
XMC_INLINE void row_scores(const LaneProblem& p, const Example& e, int64_t i, uint32_t lanes, f32x16* scores) {
  dot_row<V>(p, e, lanes, scores);
  const int32_t twin = e.special < 0 ? -1 : p.specials[e.special].twin;
  for (int v = 0; v < V; ++v) {
    if (!(lanes >> kLanes * v & 0xFFFF)) continue;
    f32x16 alpha = p.alpha[i * V + v].v;
    if (twin >= 0) alpha += p.alpha[(int64_t)twin * V + v].v;
    scores[v] += p.w_bias[v].v * p.settings.bias + alpha * e.single_norm2;
  }
}

// w += delta * x. The features that only this row has follow from alpha.
template <int V>
XMC_INLINE void update_row(LaneProblem& p, const Example& e, uint32_t lanes, const f32x16* delta) {
  const Span<const Entry> row = entries_of(p, e);
  const Span<Lanes> W = p.W;
  for (int v = 0; v < V; ++v)
    if (lanes >> kLanes * v & 0xFFFF) p.w_bias[v].v += delta[v] * p.settings.bias;
  if constexpr (V == 1) {
    add_vectors<1, 0, 1>(W, row, delta);
  } else {
    const bool low = lanes & 0xFFFF, high = lanes >> kLanes;
    if (low && high) add_vectors<2, 0, 2>(W, row, delta);
    else if (low) add_vectors<2, 0, 1>(W, row, delta);
    else add_vectors<2, 1, 2>(W, row, delta);
  }
}

// Fetches the rows that come soon and, if the weights are `far`, those of the next row.
template <int V>
XMC_INLINE void look_ahead(const LaneProblem& p, const std::vector<int32_t>& order, int64_t k, uint32_t running,
                           bool far) {
  const int64_t n = (int64_t)order.size();
  if (k + 8 < n) __builtin_prefetch(&p.examples[order[k + 8]]);
  if (k + 4 < n) {
    const int64_t i = order[k + 4];
    const Example& e = p.examples[i];
    if (e.active & running) {
      const char* first = (const char*)(p.node->shared.data() + e.start);
      const char* last = first + (int64_t)e.count * (int64_t)sizeof(Entry);
      for (; first < last; first += 64) __builtin_prefetch(first);
      for (int v = 0; v < V; ++v) __builtin_prefetch(&p.alpha.ptr[i * V + v], 1);
    }
  }
  if (!far || k + 1 >= n) return;
  const Example& e = p.examples[order[k + 1]];
  const uint32_t lanes = e.active & running;
  if (!lanes) return;
  const Entry* row = p.node->shared.data() + e.start;
  for (int v = 0; v < V; ++v)
    if (lanes >> kLanes * v & 0xFFFF)
      for (int32_t q = 0; q < e.count; ++q) __builtin_prefetch(&p.W.ptr[(int64_t)row[q].feature * V + v], 1);
}
