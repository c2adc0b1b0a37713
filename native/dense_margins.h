// The weights of dense columns in a packed level.
//
// Children of a node lie in blocks of 16, the last one with what is left, each as [column][child]: one column of a query
// meets all children of a block in one vector. The blocks of a level follow each other in the order of the children, so
// a node's first weight is at (its first child) * width, and nothing has to point there.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd.h"
#include "span.h"

#define XMC_EACH_ISA "dense_rows.h"
#include "every_isa.h"

namespace xmc {

// Queries at the same node whose products are taken together.
constexpr int kQueriesTogether = 32;

struct DenseWeights {
  Span<const float> blocks;
  int64_t width = 0;
};

// Blocks of the rows of W, one a child.
inline void pack_dense(const CsrView& W, Span<const int64_t> child_ptr, Span<float> blocks) {
  for (int64_t node = 0; node + 1 < child_ptr.size(); ++node)
    for (int64_t first = child_ptr[node]; first < child_ptr[node + 1]; first += kLanes) {
      const int64_t children = std::min<int64_t>(kLanes, child_ptr[node + 1] - first);
      const auto out = blocks.slice(first * W.width, (first + children) * W.width);
      for (int64_t c = 0; c < children; ++c) {
        const auto row = W.row_dense(first + c);
        for (int64_t f = 0; f < W.width; ++f) out[f * children + c] = row[f];
      }
    }
}

inline void multiply_dense_rows(const float* W, int64_t stride, int64_t width, int rows, const float* const* x,
                                float* out) {
  switch (isa()) {
#ifdef XMC_HAS_WIDE_ISA
    case Isa::avx512: return avx512::multiply_rows(W, stride, width, rows, x, out);
    case Isa::avx2: return avx2::multiply_rows(W, stride, width, rows, x, out);
#endif
    default: return generic::multiply_rows(W, stride, width, rows, x, out);
  }
}

// What the dense columns of some queries add to the margins of the children of one node.
class DenseMargins {
 public:
  // Children `first` to `last` - 1; x: the queries' values, at most kQueriesTogether of them.
  void multiply(const DenseWeights& dense, int64_t first, int64_t last, int queries, const float* const* x) {
    children_ = last - first;
    margins_.resize((size_t)(children_ * queries));
    float products[kQueriesTogether * kLanes];
    for (int64_t c = first; c < last; c += kLanes) {
      const int64_t children = std::min<int64_t>(kLanes, last - c);
      const auto [W, stride] = block(dense, c, children);
      multiply_dense_rows(W, stride, dense.width, queries, x, products);
      for (int q = 0; q < queries; ++q)
        std::copy_n(products + q * kLanes, children, margins_.begin() + q * children_ + (c - first));
    }
  }

  const float* of(int query) const { return margins_.data() + query * children_; }

 private:
  struct Block {
    const float* weights;
    int64_t stride;
  };

  // Sixteen weights are read of every column, some of the next column's in a block with fewer children: at the end of the
  // array these are not there, and the block is copied.
  Block block(const DenseWeights& dense, int64_t child, int64_t children) {
    const auto own = dense.blocks.slice(child * dense.width, (child + children) * dense.width);
    if (own.ptr + (dense.width - 1) * children + kLanes <= dense.blocks.end()) return {own.ptr, children};
    copied_.assign((size_t)(dense.width * kLanes), 0.0f);
    for (int64_t f = 0; f < dense.width; ++f)
      std::copy_n(own.ptr + f * children, children, copied_.begin() + f * kLanes);
    return {copied_.data(), kLanes};
  }

  int64_t children_ = 0;
  std::vector<float> margins_, copied_;
};

}  // namespace xmc
