// Which bucket a label is in: h(l) = ((a l + b) mod p) mod B with p = 2^31 - 1, 2-universal for a in [1, p) and b in
// [0, p) (Carter and Wegman 1979). Neither remainder is a division: p is a Mersenne prime, and division by B is a
// multiplication (Granlund and Montgomery 1994).
#pragma once
#include <cstdint>

#include "simd.h"
#include "span.h"

namespace xmc {

constexpr uint32_t kHashPrime = (1u << 31) - 1;

struct BucketHash {
  uint32_t a = 1, b = 0, buckets = 2;
  uint32_t multiplier = 0;  // ceil(2^shift / buckets)
  uint32_t shift = 0;       // 31 + the bits of buckets - 1: exact for every x below 2^31

  BucketHash() = default;
  BucketHash(uint32_t a, uint32_t b, uint32_t buckets) : a(a), b(b), buckets(buckets), shift(31) {
    while (shift < 62 && (uint64_t)buckets > 1ull << (shift - 31)) ++shift;
    multiplier = (uint32_t)(((1ull << shift) + buckets - 1) / buckets);
  }

  XMC_INLINE uint32_t operator()(uint32_t label) const {
    const uint64_t t = (uint64_t)a * label + b;               // below p^2
    const uint64_t folded = (t & kHashPrime) + (t >> 31);     // below 2 p
    const uint32_t x = (uint32_t)(folded + ((folded + 1) >> 31)) & kHashPrime;
    return x - (uint32_t)(((uint64_t)x * multiplier) >> shift) * buckets;
  }
};

template <class Bucket>
XMC_INLINE void hash_labels_body(const BucketHash& hash, Span<const int32_t> labels, Span<Bucket> buckets) {
  const BucketHash h = hash;
  const int32_t* from = labels.ptr;
  Bucket* to = buckets.slice(0, labels.size()).ptr;
  for (int64_t i = 0; i < labels.size(); ++i) to[i] = (Bucket)h((uint32_t)from[i]);
}

XMC_MULTIVERSION(hash_labels, (const BucketHash& hash, Span<const int32_t> labels, Span<int32_t> buckets),
                 (hash, labels, buckets))
XMC_MULTIVERSION(hash_labels, (const BucketHash& hash, Span<const int32_t> labels, Span<uint16_t> buckets),
                 (hash, labels, buckets))

}  // namespace xmc
