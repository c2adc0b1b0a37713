// The dictionary that grows while documents are counted: every distinct gram of every vectorizer, in how
// many documents it occurs, and how often.
#pragma once
#include <cstdint>
#include <vector>

#include "text_reader.h"
#include "text_table.h"

namespace xmc {

class GrowingDictionary {
 public:
  struct Count {
    uint32_t last;       // the last document the gram was seen in, from 1
    uint32_t documents;  // document frequency
    uint64_t occurrences;
  };
  // The grams of one vectorizer. A gram is numbered across vectorizers; a word or string or pair within
  // its own table.
  struct Tables {
    Buffer<uint32_t> unigram;                // word -> gram, kNone if unigrams do not count
    std::vector<PairTable> levels;                // [n - 2]: (node of the first n - 1 words, last word)
    std::vector<Buffer<uint32_t>> level_gram;  // [n - 2][node] -> gram, kNone if n < min_n
    StringTable strings;                          // character grams
    Buffer<uint32_t> string_gram;            // [node] -> gram
  };

  explicit GrowingDictionary(const TextShape& shape) : shape_(shape), tables(shape.vectorizers.size()) {}

  uint32_t word(const uint8_t* p, int64_t n) {
    const auto found = words.intern(p, n);
    if (found.second)
      for (size_t v = 0; v < tables.size(); ++v)
        if (shape_.vectorizers[v].analyzer == Analyzer::word)
          tables[v].unigram.push_back(shape_.vectorizers[v].min_n == 1 ? new_gram() : kNone);
    return found.first->node;
  }
  uint32_t unigram(int v, uint32_t word) const { return tables[v].unigram[word]; }
  int64_t levels(int) const { return INT64_MAX; }

  uint32_t chars(int v, const uint8_t* p, int64_t n) {
    Tables& t = tables[v];
    const auto found = t.strings.intern(p, n);
    if (found.second) t.string_gram.push_back(found.first->value = new_gram());
    return found.first->value;
  }

  XMC_INLINE void prefetch_pair(int v, int64_t n, uint32_t prefix, uint32_t word) {
    if ((int64_t)tables[v].levels.size() < n - 1) add_level(v);
    tables[v].levels[n - 2].prefetch(pair_key(prefix, word));
  }
  // After prefetch_pair of the same level.
  XMC_INLINE Gram pair(int v, int64_t n, uint32_t prefix, uint32_t word) {
    const auto found = tables[v].levels[n - 2].intern(pair_key(prefix, word));
    if (found.second) {
      found.first->value = n >= shape_.vectorizers[v].min_n ? new_gram() : kNone;
      tables[v].level_gram[n - 2].push_back(found.first->value);
    }
    return {found.first->node, found.first->value};
  }

  XMC_INLINE void prefetch_count(uint32_t gram) const { __builtin_prefetch(&counts[gram]); }

  // Counts one occurrence in `document`; 1 if it is the first there. Without a branch: whether a gram has
  // been seen in this document can hardly be predicted.
  XMC_INLINE uint32_t count(uint32_t gram, uint32_t document) {
    Count& c = counts[gram];
    const uint32_t first = c.last != document;
    c.last = document;
    c.documents += first;
    ++c.occurrences;
    return first;
  }

  int64_t grams() const { return (int64_t)counts.size(); }

  // Adds what `other` counted, and returns the gram here of each gram there. `other` loses its tables.
  Buffer<uint32_t> absorb(GrowingDictionary& other) {
    Buffer<uint32_t> gram_here(other.counts.size(), kNone), word_here(other.words.size());
    other.words.pad();
    for (size_t w = 0; w < word_here.size(); ++w)
      word_here[w] = word(other.words.data(w), other.words.length(w));
    for (size_t v = 0; v < tables.size(); ++v) {
      Tables& there = other.tables[v];
      for (size_t w = 0; w < there.unigram.size(); ++w)
        if (there.unigram[w] != kNone) gram_here[there.unigram[w]] = unigram((int)v, word_here[w]);
      there.strings.pad();
      for (int64_t s = 0; s < there.strings.size(); ++s)
        gram_here[there.string_gram[s]] = chars((int)v, there.strings.data(s), there.strings.length(s));
      absorb_levels((int)v, there, word_here, gram_here);
      there = Tables();
    }
    for (size_t g = 0; g < gram_here.size(); ++g) {
      counts[gram_here[g]].documents += other.counts[g].documents;
      counts[gram_here[g]].occurrences += other.counts[g].occurrences;
    }
    other.counts = {};
    other.words = StringTable();
    return gram_here;
  }

 private:
  const TextShape& shape_;

 public:
  StringTable words;
  std::vector<Tables> tables;
  Buffer<Count> counts;  // [gram]

 private:
  uint32_t new_gram() {
    if (counts.size() >= kNone) throw std::length_error("more than 2^32 - 2 distinct grams");
    counts.push_back({0, 0, 0});
    return (uint32_t)counts.size() - 1;
  }

  void add_level(int v) {
    tables[v].levels.emplace_back();
    tables[v].level_gram.emplace_back();
  }

  void absorb_levels(int v, const Tables& there, const Buffer<uint32_t>& word_here,
                     Buffer<uint32_t>& gram_here) {
    constexpr int64_t kAhead = 8;  // look-ups under way
    Buffer<uint32_t> prefix_here = word_here, node_here;
    for (size_t level = 0; level < there.levels.size(); ++level) {
      const PairTable& pairs = there.levels[level];
      auto here = [&](int64_t node) {
        const uint64_t key = pairs.key(node);
        return pair_key(prefix_here[key >> 32], word_here[(uint32_t)key]);
      };
      node_here.resize(pairs.size());
      for (int64_t node = 0; node < pairs.size(); ++node) {
        const uint64_t soon = here(std::min(node + kAhead, pairs.size() - 1)), key = here(node);
        prefetch_pair(v, (int64_t)level + 2, (uint32_t)(soon >> 32), (uint32_t)soon);
        const Gram gram = pair(v, (int64_t)level + 2, (uint32_t)(key >> 32), (uint32_t)key);
        node_here[node] = gram.node;
        if (gram.value != kNone) gram_here[there.level_gram[level][node]] = gram.value;
      }
      prefix_here.swap(node_here);
    }
  }
};

}  // namespace xmc
