// What is known about each distinct chunk (text between two spaces): its words and its grams.
//
// One record holds all of it, text included, so that a chunk costs two cache lines: a slot and a record.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "span.h"
#include "text_table.h"

namespace xmc {

class ChunkCache {
 public:
  static constexpr int64_t kMostBytes = 64;  // longer chunks rarely repeat

  XMC_INLINE void prefetch(uint64_t key) const { table_.prefetch(key); }
  XMC_INLINE void prefetch_record(uint32_t chunk) const {
    const auto* record = reinterpret_cast<const char*>(records_.data() + chunk);
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
  }
  // Beyond this nothing is added: the cache may not outgrow the dictionary.
  bool full() const { return records_.size() >= kMostRecords; }

  // The record of chunk p[0:n), kNone if there is none.
  XMC_INLINE uint32_t find(uint64_t key, const uint8_t* p, int64_t n) const {
    const Slot* slot = table_.view().find(key, [&](const Slot& s) { return is(s.value, p, n); });
    return slot ? slot->value : kNone;
  }

  // The record of chunk p[0:n); a new one is filled by analyse(words, grams).
  template <class Analyse>
  XMC_INLINE uint32_t intern(uint64_t key, const uint8_t* p, int64_t n, Analyse&& analyse) {
    const auto found = table_.intern(key, [&](const Slot& s) { return is(s.value, p, n); });
    if (found.second) {
      new_words_.clear();
      new_grams_.clear();
      analyse(new_words_, new_grams_);
      found.first->value = append(p, n);
    }
    return found.first->value;
  }

  XMC_INLINE Span<const uint32_t> words(uint32_t chunk) const {
    const Header& h = header(chunk);
    return {records_.data() + chunk + kHeader + h.text, h.words};
  }
  XMC_INLINE Span<const uint32_t> grams(uint32_t chunk) const {
    const Header& h = header(chunk);
    return {records_.data() + chunk + kHeader + h.text + h.words, h.grams};
  }
  // Replaces every gram g of every chunk by to[g].
  void renumber(const Buffer<uint32_t>& to) {
    for (size_t at = 0; at < records_.size();) {
      const Span<const uint32_t> list = grams((uint32_t)at);
      for (uint32_t& gram : Span<uint32_t>(const_cast<uint32_t*>(list.ptr), list.size())) gram = to[gram];
      at = list.end() - records_.data();
    }
  }

 private:
  // A record: header, text (of chunks whose key is not exact, in whole units), words, grams.
  struct Header {
    uint16_t text, words;  // units of 4 bytes; words
    uint32_t grams;
  };
  static constexpr uint32_t kHeader = sizeof(Header) / 4;
  static constexpr size_t kMostRecords = 1u << 25;  // 128 MB

  const Header& header(uint32_t chunk) const { return reinterpret_cast<const Header&>(records_[chunk]); }

  XMC_INLINE bool is(uint32_t chunk, const uint8_t* p, int64_t n) const {
    if (n <= kExactBytes) return true;
    // The text is filled up with zeros, and the key tells lengths apart only by hash: compare both.
    const auto* text = reinterpret_cast<const uint8_t*>(records_.data() + chunk + kHeader);
    return text[0] == (uint8_t)n && std::memcmp(text + 1, p, n) == 0;
  }

  uint32_t append(const uint8_t* p, int64_t n) {
    const size_t at = records_.size();
    const uint16_t units = n <= kExactBytes ? 0 : (uint16_t)((n + 1 + 3) / 4);  // length, text
    records_.resize(at + kHeader + units);
    const Header h{units, (uint16_t)new_words_.size(), (uint32_t)new_grams_.size()};
    std::memcpy(&records_[at], &h, sizeof h);
    if (units) {
      auto* text = reinterpret_cast<uint8_t*>(records_.data() + at + kHeader);
      text[0] = (uint8_t)n;
      std::memcpy(text + 1, p, n);
    }
    records_.insert(records_.end(), new_words_.begin(), new_words_.end());
    records_.insert(records_.end(), new_grams_.begin(), new_grams_.end());
    return (uint32_t)at;
  }

  SlotTable table_;
  Buffer<uint32_t> records_;
  std::vector<uint32_t> new_words_, new_grams_;
};

}  // namespace xmc
