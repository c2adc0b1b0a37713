// When half of the lanes are done, the others move together into one vector and go on at half the price.
#pragma once
#include <cstdint>

#include "lane_problem.h"

namespace xmc {

// The bits of `from` at the places set in `places`, moved together.
inline uint32_t gathered_bits(uint32_t from, uint32_t places) {
  uint32_t to = 0;
  for (int next = 0; places; places &= places - 1, ++next) to |= (from >> __builtin_ctz(places) & 1u) << next;
  return to;
}

// Lane `places[k]` of each pair of vectors becomes lane k of a single one, in place.
inline void gather_lanes(Span<Lanes>& rows, const int* lanes, int count) {
  const int64_t n = rows.size() / 2;
  for (int64_t i = 0; i < n; ++i) {
    Lanes moved;
    moved.v = f32x16{};
    for (int k = 0; k < count; ++k) moved.v[k] = rows[2 * i + lanes[k] / kLanes].v[lanes[k] % kLanes];
    rows[i] = moved;
  }
  rows = rows.slice(0, n);
}

// The same where all of the first vectors come before all of the second.
inline void gather_planes(Span<Lanes>& rows, const int* lanes, int count) {
  const int64_t n = rows.size() / 2;
  for (int64_t i = 0; i < n; ++i) {
    Lanes moved;
    moved.v = f32x16{};
    for (int k = 0; k < count; ++k) moved.v[k] = rows[i + lanes[k] / kLanes * n].v[lanes[k] % kLanes];
    rows[i] = moved;
  }
  rows = rows.slice(0, n);
}

// Keeps the lanes of `running` (at most 16) of a problem with two vectors. `lanes`: receives their old places.
inline int compact_lanes(LaneProblem& p, uint32_t running, int* lanes) {
  int count = 0;
  for (uint32_t left = running; left; left &= left - 1) lanes[count++] = __builtin_ctz(left);
  gather_lanes(p.W, lanes, count);
  gather_planes(p.D, lanes, count);
  gather_lanes(p.alpha, lanes, count);
  gather_lanes(p.margin, lanes, count);
  Span<Lanes> bias(p.w_bias, kMostVectors);
  gather_lanes(bias, lanes, count);
  for (Special& s : p.specials) {
    Span<Lanes> cost(s.cost, kMostVectors);
    gather_lanes(cost, lanes, count);
  }
  for (Example& e : p.examples) {
    e.positive = gathered_bits(e.positive, running);
    e.enabled = gathered_bits(e.enabled, running);
    e.active = gathered_bits(e.active, running);
  }
  for (int k = 0; k < count; ++k) p.problem_of[k] = p.problem_of[lanes[k]];
  p.lanes = (1u << count) - 1;
  p.vectors = 1;
  return count;
}

}  // namespace xmc
