// Seeded randomness that depends on what is being computed, never on thread or order.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace xmc {

// splitmix64: one step of mixing; also the hash for ids.
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed)) {}
  uint64_t next() { return mix(state_++); }
  // Uniform in [0, n), n < 2^32.
  uint32_t below(uint32_t n) { return (uint32_t)(((next() >> 32) * (uint64_t)n) >> 32); }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below((uint32_t)i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace xmc
