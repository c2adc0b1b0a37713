// Up to 32 L2-regularised one-vs-all problems over the same rows, by dual coordinate descent.
//
// Per lane the method is that of Hsieh et al. (ICML 2008, algorithm 3; squared hinge, hinge) and, for the
// logistic loss, the one-variable problems of Yu et al. (MLJ 2011) solved for the margin. W is held as
// [feature][lanes], one or two vectors of 16, so one row's dot products and updates are contiguous vector
// operations. A lane never looks at another: solved alone or with its siblings, a problem has the same answer bit
// for bit.
#pragma once
#include <cstdint>
#include <vector>

#include "lane_compact.h"
#include "lane_problem.h"
#include "random.h"

#define XMC_EACH_ISA "solve_lanes.h"
#include "every_isa.h"

namespace xmc {

// Fills `kept` and `bias_of`.
inline void solve_lane_problem(LaneProblem& p) {
  switch (isa()) {
#ifdef XMC_HAS_WIDE_ISA
    case Isa::avx512: return avx512::solve(p);
    case Isa::avx2: return avx2::solve(p);
#endif
    default: return generic::solve(p);
  }
}

}  // namespace xmc
