// Rows with dense columns, a few at a time. No include guard: compiled once for each instruction set.
//
// Alone, a row would load and store all dense weights for one multiplication each. So the rows of a window are multiplied
// with the weights together, before the first of them is visited, and added to them together, after the last. In between
// a row that moves by delta changes the score of a later one by delta * (x . x'), which is the same for all lanes. Windows
// are places in the order of the sweep: whether other lanes look at a row does not change them.
constexpr int kWindow = 8;

template <int V>
struct Window {
  int rows = 0;                    // that some lane looks at
  int32_t example[kWindow];
  int32_t twin[kWindow];           // the row's second example; -1 = none
  uint32_t lanes[kWindow];         // that look at either
  uint32_t changed[kWindow];
  const float* x[kWindow];
  f32x16 scores[kWindow][V];       // w . x over the dense columns, now
  f32x16 delta[kWindow][V];
};

// Which rows of a window have a bit of `bits` in a vector.
struct Chosen {
  int rows = 0;
  int place[kWindow];
  const float* x[kWindow];
  Chosen(const uint32_t* bits, const float* const* all, int from, int to, uint32_t wanted) {
    for (int j = from; j < to; ++j)
      if (bits[j] & wanted) {
        place[rows] = j;
        x[rows++] = all[j];
      }
  }
};

constexpr uint32_t vector_bits(int v) { return 0xFFFFu << kLanes * v; }

// Scores of some rows for all vectors that `lanes` has bits of.
template <int V>
XMC_INLINE void dense_scores(const LaneProblem& p, Window<V>& w) {
  Lanes out[kWindow];
  for (int v = 0; v < V; ++v) {
    const Chosen chosen(w.lanes, w.x, 0, w.rows, vector_bits(v));
    multiply_rows(p.dense_lanes(v), kLanes, p.node->width, chosen.rows, chosen.x, (float*)out);
    for (int j = 0; j < chosen.rows; ++j) w.scores[chosen.place[j]][v] = out[j].v;
  }
}

// Adds what the rows of a window moved by to the weights.
template <int V>
XMC_INLINE void add_window(LaneProblem& p, const Window<V>& w) {
  Lanes delta[kWindow];
  for (int v = 0; v < V; ++v) {
    const Chosen chosen(w.changed, w.x, 0, w.rows, vector_bits(v));
    for (int j = 0; j < chosen.rows; ++j) delta[j].v = w.delta[chosen.place[j]][v];
    add_rows(p.dense_lanes(v), kLanes, p.node->width, chosen.rows, chosen.x, (const float*)delta);
  }
}

template <int V>
XMC_INLINE void add_to_window(const LaneProblem& p, Window<V>& w, int64_t example, int32_t twin, uint32_t lanes) {
  const int j = w.rows++;
  w.example[j] = (int32_t)example;
  w.twin[j] = twin;
  w.lanes[j] = lanes;
  w.changed[j] = 0;
  w.x[j] = p.dense_row(example).ptr;
  for (int v = 0; v < V; ++v) w.scores[j][v] = w.delta[j][v] = f32x16{};
}

// Row j moved by delta in the lanes of `changed`, by its first example or its second: those that come after hear of it.
template <int V>
XMC_INLINE void moved(const LaneProblem& p, Window<V>& w, int j, bool by_first, uint32_t changed, const f32x16* delta) {
  w.changed[j] |= changed;
  for (int v = 0; v < V; ++v) w.delta[j][v] += delta[v];
  const Chosen later(w.lanes, w.x, by_first && w.twin[j] >= 0 ? j : j + 1, w.rows, changed);
  float products[kWindow];
  row_products(w.x[j], p.node->width, later.rows, later.x, products);
  for (int k = 0; k < later.rows; ++k)
    for (int v = 0; v < V; ++v) w.scores[later.place[k]][v] += delta[v] * products[k];
}

// Fetches the dense columns of the row at place k of the order, if a lane will look at them.
XMC_INLINE void fetch_dense_row(const LaneProblem& p, const std::vector<int32_t>& order, int64_t k, uint32_t running) {
  constexpr int64_t kFloatsPerLine = 16;
  if (k >= (int64_t)order.size()) return;
  if (k + kWindow < (int64_t)order.size()) __builtin_prefetch(&p.examples[order[k + kWindow]]);
  if (!(p.examples[order[k]].active & running)) return;
  const Span<const float> row = p.node->dense_row(order[k]);
  for (int64_t f = 0; f < row.size(); f += kFloatsPerLine) __builtin_prefetch(row.ptr + f);
}

// The rows at places first to last - 1 of the order that lanes look at, with their scores; fetches those that come next.
template <int V>
XMC_INLINE void open_window(const LaneProblem& p, const std::vector<int32_t>& order, int64_t first, int64_t last,
                            uint32_t running, Window<V>& w) {
  for (int64_t k = first; k < last; ++k) {
    const Example& e = p.examples[order[k]];
    const int32_t twin = e.special < 0 ? -1 : p.specials[e.special].twin;
    const uint32_t lanes = (e.active | (twin < 0 ? 0 : p.examples[twin].active)) & running;
    if (lanes) add_to_window<V>(p, w, order[k], twin, lanes);
    fetch_dense_row(p, order, k + kWindow, running);
  }
  dense_scores<V>(p, w);
}

// scores += w . x over the dense columns of one example.
template <int V>
XMC_INLINE void add_dense_scores(const LaneProblem& p, int64_t example, f32x16* scores) {
  if (!p.node->width) return;
  Window<V> alone;
  add_to_window<V>(p, alone, example, -1, ~0u);
  dense_scores<V>(p, alone);
  for (int v = 0; v < V; ++v) scores[v] += alone.scores[0][v];
}

// w += alpha * x over the dense columns of one example, once the window is full.
template <int V>
XMC_INLINE void add_alpha(LaneProblem& p, Window<V>& w, int64_t example, const f32x16* alpha) {
  add_to_window<V>(p, w, example, -1, ~0u);
  w.changed[w.rows - 1] = ~0u;
  for (int v = 0; v < V; ++v) w.delta[w.rows - 1][v] = alpha[v];
  if (w.rows < kWindow) return;
  add_window<V>(p, w);
  w.rows = 0;
}
