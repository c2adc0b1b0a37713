// Many queries on several threads: blocks of rows, each searched by one thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.h"
#include "search.h"

namespace xmc {

// Large enough that queries of a block share nodes, small enough that their candidates stay in the cache.
constexpr int64_t kQueryBlock = 2048;

inline Query query_of(const CsrView& X, int64_t row) {
  return {X.row_indices(row), X.row_data(row), X.width ? X.row_dense(row) : Span<const float>()};
}

inline void search_batch(const Model& model, const CsrView& X, int64_t beam, int64_t k, int threads, int32_t* labels,
                         float* scores) {
  const int64_t rows = X.rows();
  const int64_t block = std::max<int64_t>(1, std::min(kQueryBlock, (rows + threads - 1) / std::max(threads, 1)));
  std::vector<Searcher> searchers((size_t)std::max(threads, 1));
  std::vector<std::vector<Query>> queries(searchers.size());
  parallel_for((rows + block - 1) / block, threads, [&](int64_t b, int worker) {
    const int64_t from = b * block, to = std::min(rows, from + block);
    queries[worker].clear();
    for (int64_t r = from; r < to; ++r) queries[worker].push_back(query_of(X, r));
    searchers[worker].search(model, queries[worker], beam, k, labels + from * k, scores + from * k);
  });
}

inline void score_pairs(const Model& model, const CsrView& X, const CsrView& positions, int threads, float* scores) {
  std::vector<Searcher> searchers((size_t)std::max(threads, 1));
  const int64_t rows = X.rows(), block = 256;
  parallel_for((rows + block - 1) / block, threads, [&](int64_t b, int worker) {
    for (int64_t r = b * block; r < std::min(rows, (b + 1) * block); ++r)
      searchers[worker].score_candidates(model, query_of(X, r), positions.row_indices(r),
                                         scores + positions.indptr[r]);
  });
}

}  // namespace xmc
