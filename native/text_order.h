// The grams of a dictionary in the order of their text (bytes, which is also code points), and their text.
//
// A space sorts below every character of a word, so word n-grams are ordered as tuples of word ranks: the
// words are sorted once as strings, all else is sorting of integers, level by level.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "text_dictionary.h"

namespace xmc {

struct SortItem {
  uint64_t key;
  uint32_t id;
};

// Sorts by key, whose top set bit is below `bits`; equal keys keep their order.
inline void radix_sort(Buffer<SortItem>& items, int bits) {
  constexpr int kDigit = 11;
  Buffer<SortItem> other(items.size());
  for (int shift = 0; shift < bits; shift += kDigit) {
    int64_t start[(1 << kDigit) + 1] = {0};
    for (const SortItem& item : items) ++start[((item.key >> shift) & ((1 << kDigit) - 1)) + 1];
    for (int d = 0; d < 1 << kDigit; ++d) start[d + 1] += start[d];
    for (const SortItem& item : items) other[start[(item.key >> shift) & ((1 << kDigit) - 1)]++] = item;
    items.swap(other);
  }
}

inline int bits_of(uint64_t n) { return n ? 64 - __builtin_clzll(n) : 0; }

// Numbers of the strings in byte order.
inline Buffer<uint32_t> sorted_strings(const StringTable& strings) {
  Buffer<SortItem> items(strings.size());
  for (int64_t i = 0; i < strings.size(); ++i) {
    uint64_t prefix = 0;
    std::memcpy(&prefix, strings.data(i), std::min<int64_t>(8, strings.length(i)));
    items[i] = {__builtin_bswap64(prefix), (uint32_t)i};  // little-endian: first byte to the top
  }
  std::sort(items.begin(), items.end(), [&](const SortItem& a, const SortItem& b) {
    if (a.key != b.key) return a.key < b.key;
    const int64_t n = strings.length(a.id), m = strings.length(b.id);
    const int order = std::memcmp(strings.data(a.id), strings.data(b.id), std::min(n, m));
    return order ? order < 0 : n < m;
  });
  Buffer<uint32_t> order(items.size());
  for (size_t i = 0; i < items.size(); ++i) order[i] = items[i].id;
  return order;
}

struct GramPlace {
  uint32_t level;  // words in the gram; 0: a character gram
  uint32_t node;   // in the table of that level
  uint32_t gram;
};

class GramOrder {
 public:
  explicit GramOrder(const GrowingDictionary& dictionary) : dictionary_(dictionary) {}

  // The grams of vectorizer v, in order.
  Buffer<GramPlace> places(int v, const VectorizerShape& shape) {
    if (shape.analyzer != Analyzer::word) return character_places(v);
    rank_words();
    const auto& tables = dictionary_.tables[v];
    const size_t top = tables.levels.size() + 1;
    // For each level: nodes in order, and the rank of each one's prefix in the level below.
    std::vector<Buffer<uint32_t>> nodes(top), parents(top);
    nodes[0] = words_;
    Buffer<uint32_t> rank = word_rank_;
    for (size_t n = 1; n < top; ++n) rank = sort_level(tables.levels[n - 1], rank, nodes[n], parents[n]);
    return preorder(v, nodes, parents);
  }

  // What spell() will read, in two steps.
  XMC_INLINE void prefetch_pair(int v, const GramPlace& place) const {
    if (place.level > 1) dictionary_.tables[v].levels[place.level - 2].prefetch_key(place.node);
  }
  XMC_INLINE void prefetch_word(int v, const GramPlace& place) const {
    if (place.level < 2) return;
    dictionary_.words.prefetch((uint32_t)dictionary_.tables[v].levels[place.level - 2].key(place.node));
  }

  // Appends the text of a gram of vectorizer v.
  void spell(int v, const GramPlace& place, Buffer<uint8_t>& out) const {
    const auto& tables = dictionary_.tables[v];
    if (place.level == 0) return append(tables.strings, place.node, out);
    uint32_t words[64];
    std::vector<uint32_t> many;
    if (place.level > 64) many.resize(place.level);
    uint32_t *word = place.level > 64 ? many.data() : words, node = place.node;
    for (uint32_t n = place.level; n > 1; --n) {
      const uint64_t key = tables.levels[n - 2].key(node);
      word[n - 1] = (uint32_t)key;
      node = (uint32_t)(key >> 32);
    }
    word[0] = node;
    for (uint32_t n = 0; n < place.level; ++n) {
      if (n) out.push_back(' ');
      append(dictionary_.words, word[n], out);
    }
  }

 private:
  static void append(const StringTable& strings, uint32_t node, Buffer<uint8_t>& out) {
    out.insert(out.end(), strings.data(node), strings.data(node) + strings.length(node));
  }

  Buffer<GramPlace> character_places(int v) const {
    const auto& tables = dictionary_.tables[v];
    Buffer<GramPlace> places;
    places.reserve(tables.strings.size());
    for (uint32_t node : sorted_strings(tables.strings)) places.push_back({0, node, tables.string_gram[node]});
    return places;
  }

  void rank_words() {
    if (!words_.empty()) return;
    words_ = sorted_strings(dictionary_.words);
    word_rank_.resize(words_.size());
    for (size_t r = 0; r < words_.size(); ++r) word_rank_[words_[r]] = (uint32_t)r;
  }

  // Sorts the nodes of a level by (rank of prefix, rank of last word); returns the rank of each node.
  Buffer<uint32_t> sort_level(const PairTable& pairs, const Buffer<uint32_t>& prefix_rank,
                                   Buffer<uint32_t>& nodes, Buffer<uint32_t>& parents) const {
    const int low = bits_of(word_rank_.size());
    Buffer<SortItem> items(pairs.size());
    for (int64_t i = 0; i < pairs.size(); ++i) {
      const uint64_t key = pairs.key(i);
      items[i] = {(uint64_t)prefix_rank[key >> 32] << low | word_rank_[(uint32_t)key], (uint32_t)i};
    }
    radix_sort(items, low + bits_of(prefix_rank.size()));
    nodes.resize(items.size());
    parents.resize(items.size());
    Buffer<uint32_t> rank(items.size());
    for (size_t r = 0; r < items.size(); ++r) {
      nodes[r] = items[r].id;
      parents[r] = (uint32_t)(items[r].key >> low);
      rank[items[r].id] = (uint32_t)r;
    }
    return rank;
  }

  // A gram comes right before the grams that continue it.
  Buffer<GramPlace> preorder(int v, const std::vector<Buffer<uint32_t>>& nodes,
                                  const std::vector<Buffer<uint32_t>>& parents) const {
    const auto& tables = dictionary_.tables[v];
    Buffer<GramPlace> places;
    places.reserve(dictionary_.grams());
    std::vector<size_t> next(nodes.size() + 1, 0), at(nodes.size() + 1, 0);  // per level
    for (size_t w = 0; w < nodes[0].size(); ++w) {
      const uint32_t word = nodes[0][w];
      if (tables.unigram[word] != kNone) places.push_back({1, word, tables.unigram[word]});
      at[0] = w;
      for (int64_t level = 0; level >= 0;) {
        const size_t down = level + 1;
        if (down < nodes.size() && next[down] < nodes[down].size() && parents[down][next[down]] == at[level]) {
          const uint32_t node = nodes[down][next[down]], gram = tables.level_gram[down - 1][node];
          if (gram != kNone) places.push_back({(uint32_t)down + 1, node, gram});
          at[down] = next[down]++;
          level = (int64_t)down;
        } else {
          --level;
        }
      }
    }
    return places;
  }

  const GrowingDictionary& dictionary_;
  Buffer<uint32_t> words_, word_rank_;  // words in order; rank of each word
};

}  // namespace xmc
