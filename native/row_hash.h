// XXH64 (https://github.com/Cyan4973/xxHash, its specification), which is what Spark's `xxhash64` folds over the columns
// of a row: the hash so far is the seed of the next.
#pragma once

#include <cstdint>
#include <cstring>

#include "span.h"

namespace xmc {

namespace xxh {

constexpr uint64_t P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL,
               P4 = 0x85EBCA77C2B2AE63ULL, P5 = 0x27D4EB2F165667C5ULL;

inline uint64_t rotated(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

// Little-endian, as x86-64 and aarch64 are.
template <class T>
inline T word_at(const uint8_t* at) {
  T word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline uint64_t round_of(uint64_t sum, uint64_t word) { return rotated(sum + word * P2, 31) * P1; }

inline uint64_t merged(uint64_t hash, uint64_t sum) { return (hash ^ round_of(0, sum)) * P1 + P4; }

inline uint64_t finished(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  return hash ^ (hash >> 32);
}

// Four sums over blocks of 32 bytes; `at` moves past them.
inline uint64_t of_blocks(const uint8_t*& at, const uint8_t* end, uint64_t seed) {
  uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
  for (; end - at >= 32; at += 32) {
    a = round_of(a, word_at<uint64_t>(at));
    b = round_of(b, word_at<uint64_t>(at + 8));
    c = round_of(c, word_at<uint64_t>(at + 16));
    d = round_of(d, word_at<uint64_t>(at + 24));
  }
  const uint64_t hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
  return merged(merged(merged(merged(hash, a), b), c), d);
}

inline uint64_t of_bytes(const uint8_t* at, int64_t size, uint64_t seed) {
  const uint8_t* const end = at + size;
  uint64_t hash = size >= 32 ? of_blocks(at, end, seed) : seed + P5;
  hash += static_cast<uint64_t>(size);
  for (; end - at >= 8; at += 8) hash = rotated(hash ^ round_of(0, word_at<uint64_t>(at)), 27) * P1 + P4;
  if (end - at >= 4) {
    hash = rotated(hash ^ (word_at<uint32_t>(at) * P1), 23) * P2 + P3;
    at += 4;
  }
  for (; at < end; ++at) hash = rotated(hash ^ (*at * P5), 11) * P1;
  return finished(hash);
}

inline uint64_t of_word(uint32_t word, uint64_t seed) {
  return finished(rotated((seed + P5 + 4) ^ (word * P1), 23) * P2 + P3);
}

}  // namespace xxh

// Folds row i's bytes into hashes[i].
inline void fold_bytes(Span<uint64_t> hashes, Span<const int64_t> offsets, Span<const uint8_t> bytes) {
  for (int64_t row = 0; row < hashes.size(); ++row) {
    const int64_t begin = offsets[row], size = offsets[row + 1] - begin;
    hashes[row] = xxh::of_bytes(size ? &bytes[begin] : nullptr, size, hashes[row]);
  }
}

// Folds row i's words into hashes[i], one after the other.
inline void fold_words(Span<uint64_t> hashes, Span<const int64_t> indptr, Span<const int32_t> words) {
  for (int64_t row = 0; row < hashes.size(); ++row)
    for (int64_t at = indptr[row]; at < indptr[row + 1]; ++at)
      hashes[row] = xxh::of_word(static_cast<uint32_t>(words[at]), hashes[row]);
}

}  // namespace xmc
