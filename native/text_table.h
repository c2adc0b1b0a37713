// Exact open-addressing tables: strings to numbers, and pairs of numbers to numbers.
//
// A slot is 16 bytes, so a look-up costs one cache line. Strings of up to 7 bytes are their own key; of
// longer ones the key is a hash, and the bytes are compared. The home of a key is the high bits of its
// mixed value, so growing is one sequential pass over both tables.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "simd.h"
#include "span.h"
#include "text_memory.h"

namespace xmc {

constexpr uint64_t kEmpty = ~0ull;
constexpr uint32_t kNone = ~0u;

struct Slot {
  uint64_t key;    // kEmpty: free
  uint32_t node;   // number of this key in its table
  uint32_t value;  // what the owner stores under it: a gram, a feature, or kNone
};

XMC_INLINE uint64_t mixed(uint64_t key) {
  key = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15ull;
  return (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9ull;
}

XMC_INLINE uint64_t load64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

constexpr int64_t kExactBytes = 7;  // strings up to here need no comparison of bytes

// Key of the string p[0:n), 0 < n; 8 bytes must be readable at p.
XMC_INLINE uint64_t string_key(const uint8_t* p, int64_t n) {
  if (n <= kExactBytes) return (load64(p) & ((1ull << (8 * n)) - 1)) | (uint64_t)n << 56;
  uint64_t h = (uint64_t)n * 0x9E3779B97F4A7C15ull;
  for (int64_t i = 0; i + 8 < n; i += 8) {
    h = (h ^ load64(p + i)) * 0xFF51AFD7ED558CCDull;
    h ^= h >> 32;
  }
  h = mixed(h ^ load64(p + n - 8));  // the last 8 bytes, overlapping what came before
  return (h >> 8) | 0xFEull << 56;
}

XMC_INLINE uint64_t pair_key(uint32_t prefix, uint32_t word) { return (uint64_t)prefix << 32 | word; }

// Read-only view of a table of 2^k slots. It may come from a file: a full or foreign table must not hang.
struct SlotView {
  Span<const Slot> slots;
  int shift = 63;

  SlotView() = default;
  explicit SlotView(Span<const Slot> view) : slots(view) {
    while (shift > 1 && (int64_t)(1ull << (64 - shift)) < slots.size()) --shift;
  }
  SlotView(const uint8_t* bytes, int64_t count)
      : SlotView(Span<const Slot>(reinterpret_cast<const Slot*>(bytes), count)) {}
  XMC_INLINE int64_t home(uint64_t key) const { return (int64_t)(mixed(key) >> shift); }
  XMC_INLINE void prefetch(uint64_t key) const { __builtin_prefetch(slots.ptr + home(key)); }

  // The slot of `key` for which same(slot) holds, or null.
  template <class Same>
  XMC_INLINE const Slot* find(uint64_t key, Same&& same) const {
    const int64_t mask = slots.size() - 1;
    if (mask < 0) return nullptr;
    int64_t at = home(key);
    for (int64_t probes = 0; probes <= mask; ++probes, at = (at + 1) & mask) {
      const Slot& slot = slots[at];
      if (slot.key == key && same(slot)) return &slot;
      if (slot.key == kEmpty) return nullptr;
    }
    return nullptr;
  }
};

// A growing table of slots.
class SlotTable {
 public:
  // The slot of `key` for which same(slot) holds, and whether it is new; a new one is numbered in order.
  template <class Same>
  XMC_INLINE std::pair<Slot*, bool> intern(uint64_t key, Same&& same) {
    if (count_ >= limit_) grow();
    const int64_t mask = (int64_t)slots_.size() - 1;
    for (int64_t at = (int64_t)(mixed(key) >> shift_);; at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.key == key && same(slot)) return {&slot, false};
      if (slot.key == kEmpty) {
        slot = {key, (uint32_t)count_++, kNone};
        return {&slot, true};
      }
    }
  }
  XMC_INLINE void prefetch(uint64_t key) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[mixed(key) >> shift_]);
  }
  int64_t size() const { return count_; }
  SlotView view() const { return SlotView(Span<const Slot>(slots_.data(), (int64_t)slots_.size())); }
  Buffer<Slot>& slots() { return slots_; }

 private:
  void grow() {
    if (count_ >= (int64_t)kNone - 1) throw std::length_error("more than 2^32 - 2 distinct grams in one table");
    Buffer<Slot> old(slots_.empty() ? 16 : slots_.size() * 2, Slot{kEmpty, 0, 0});
    old.swap(slots_);
    shift_ = old.empty() ? 60 : shift_ - 1;
    limit_ = (int64_t)slots_.size() * 5 / 8;
    const int64_t mask = (int64_t)slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.key == kEmpty) continue;
      int64_t at = (int64_t)(mixed(slot.key) >> shift_);
      while (slots_[at].key != kEmpty) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  Buffer<Slot> slots_;
  int64_t count_ = 0, limit_ = 0;
  int shift_ = 64;
};

// Strings of a table, one after the other.
struct StringView {
  Span<const int64_t> start;  // start[i]:start[i + 1] are the bytes of string i
  Span<const uint8_t> bytes;

  int64_t size() const { return start.size() - 1; }
  // Whether string `i` is p[0:n). Checks what it reads: the arrays may come from a damaged file.
  XMC_INLINE bool equals(uint32_t i, const uint8_t* p, int64_t n) const {
    if ((int64_t)i + 1 >= start.size()) return false;
    const int64_t from = start[i], to = start[i + 1];
    return to - from == n && from >= 0 && to <= bytes.size() && std::memcmp(bytes.ptr + from, p, n) == 0;
  }
};

// A growing set of distinct strings, numbered in order of arrival.
class StringTable {
 public:
  XMC_INLINE std::pair<Slot*, bool> intern(const uint8_t* p, int64_t n) {
    return intern(string_key(p, n), p, n);
  }
  XMC_INLINE std::pair<Slot*, bool> intern(uint64_t key, const uint8_t* p, int64_t n) {
    auto found = table_.intern(
        key, [&](const Slot& slot) { return n <= kExactBytes || strings().equals(slot.node, p, n); });
    if (found.second) {
      bytes_.insert(bytes_.end(), p, p + n);
      start_.push_back((int64_t)bytes_.size());
    }
    return found;
  }
  const Slot* find(const uint8_t* p, int64_t n) const {
    return table_.view().find(string_key(p, n), [&](const Slot& slot) {
      return n <= kExactBytes || strings().equals(slot.node, p, n);
    });
  }
  int64_t size() const { return table_.size(); }
  const uint8_t* data(int64_t i) const { return bytes_.data() + start_[i]; }
  int64_t length(int64_t i) const { return start_[i + 1] - start_[i]; }
  XMC_INLINE void prefetch(int64_t i) const { __builtin_prefetch(&start_[i]); }
  XMC_INLINE void prefetch_slot(uint64_t key) const { table_.prefetch(key); }
  StringView strings() const {
    return {{start_.data(), (int64_t)start_.size()}, {bytes_.data(), (int64_t)bytes_.size()}};
  }
  Buffer<Slot>& slots() { return table_.slots(); }
  std::vector<uint8_t>& bytes() { return bytes_; }
  std::vector<int64_t>& starts() { return start_; }
  // Makes 8 bytes readable at the start of every string; nothing can be added afterwards.
  void pad() { bytes_.resize(bytes_.size() + 8); }

 private:
  SlotTable table_;
  std::vector<int64_t> start_{0};
  std::vector<uint8_t> bytes_;
};

// A growing set of (prefix, word) pairs, numbered in order of arrival.
class PairTable {
 public:
  XMC_INLINE std::pair<Slot*, bool> intern(uint64_t key) {
    auto found = table_.intern(key, [](const Slot&) { return true; });
    if (found.second) keys_.push_back(key);
    return found;
  }
  XMC_INLINE void prefetch(uint64_t key) const { table_.prefetch(key); }
  int64_t size() const { return table_.size(); }
  uint64_t key(int64_t node) const { return keys_[node]; }
  XMC_INLINE void prefetch_key(int64_t node) const { __builtin_prefetch(&keys_[node]); }
  Buffer<Slot>& slots() { return table_.slots(); }

 private:
  SlotTable table_;
  Buffer<uint64_t> keys_;
};

}  // namespace xmc
