// Recovery's inner loops, on the best instruction set of the CPU (sketch_lanes.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lanes.h"
#include "sketch_hash.h"
#include "sketch_score.h"
#include "sketch_transform.h"
#include "span.h"

namespace xmc {

// The best buckets of a repetition are those above `least`, and of those that equal it the ones up to `last`.
struct Chosen {
  float least = 0.0f;
  int32_t last = -1;
};

// A row, and what was chosen of it. Scores of the row are margins if `form` is more than the identity: then only those
// that count become probabilities.
struct RowChoice {
  Span<const float> row;  // [R][B]
  Span<const BucketHash> hashes;
  Span<const Chosen> chosen;
  const ScoreRule* rule = nullptr;
  const ScoreForm* form = nullptr;
};

struct ChoiceScratch {
  float bound = -INFINITY;  // what about as many scores reach as are wanted; -infinity: unknown
  std::vector<int32_t> reached;
  std::vector<Lanes> keys;
};

}  // namespace xmc

#define XMC_EACH_ISA "sketch_lanes.h"
#include "every_isa.h"

// The function of that name in the namespace of the CPU's instruction set.
#ifdef XMC_HAS_WIDE_ISA
#define XMC_ON_THIS_CPU(call)                    \
  switch (xmc::isa()) {                          \
    case xmc::Isa::avx512: xmc::avx512::call; break; \
    case xmc::Isa::avx2: xmc::avx2::call; break;     \
    default: xmc::generic::call;                 \
  }
#else
#define XMC_ON_THIS_CPU(call) xmc::generic::call
#endif
