// Turns a document into the grams of every vectorizer, whatever the dictionary: one that grows while
// counting, or a frozen one while transforming.
//
// The words and the within-word character grams of a piece of text between two spaces (a chunk) depend on
// nothing but the chunk, and chunks repeat (Zipf): each distinct one is analysed once and its grams are
// kept as a list. Only grams that cross chunks are looked up in every document.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "text_chunks.h"
#include "text_split.h"
#include "text_table.h"

namespace xmc {

enum class Analyzer : int { word = 0, char_wb = 1, chars = 2 };

struct VectorizerShape {
  Analyzer analyzer;
  int64_t min_n, max_n;
};

struct TextShape {
  std::vector<VectorizerShape> vectorizers;
  WordRule rule = WordRule::pairs;
  bool lower = true;

  void add(int analyzer, int64_t min_n, int64_t max_n) {
    vectorizers.push_back({(Analyzer)analyzer, min_n, max_n});
  }
};

// A gram of a dictionary: `node` continues to longer grams, `value` is what it counts as (or kNone).
struct Gram {
  uint32_t node, value;
};

// Dictionary: word(p, n) -> node or kNone; unigram(v, word) -> value; chars(v, p, n) -> value;
// pair(v, n, prefix, word) -> Gram; prefetch_pair(...); levels(v) -> longest word n-gram worth looking up.
template <class Dictionary>
class DocumentReader {
 public:
  DocumentReader(const TextShape& shape, Dictionary& dictionary, bool cache_chunks)
      : shape_(shape), dictionary_(dictionary), cache_chunks_(cache_chunks) {
    for (const auto& v : shape.vectorizers) {
      has_words_ |= v.analyzer == Analyzer::word;
      needs_words_ |= v.analyzer == Analyzer::word && v.max_n >= 2;
      needs_chunks_ |= v.analyzer != Analyzer::chars;
    }
  }

  // Reads text[0:n), which is normalised and followed by padding: fills `chunks` and `loose`.
  void read(const uint8_t* text, int64_t n) {
    chunks.clear();
    loose.clear();
    words_.clear();
    if (needs_chunks_) read_chunks(text, n);
    for (int v = 0; v < (int)shape_.vectorizers.size(); ++v) {
      const VectorizerShape& shape = shape_.vectorizers[v];
      if (shape.analyzer == Analyzer::word && shape.max_n >= 2) read_word_grams(v, shape.max_n);
      if (shape.analyzer == Analyzer::chars) read_characters(v, text, n);
    }
  }

  ChunkCache cache;
  std::vector<uint32_t> chunks;  // cached chunks of the last document, in order
  std::vector<uint32_t> loose;   // its other grams, with repetitions

 private:
  struct Piece {
    const uint8_t* text;
    int64_t size;
    uint64_t key;
  };

  // In passes, so that the memory of each chunk is under way before it is used.
  void read_chunks(const uint8_t* text, int64_t n) {
    pieces_.clear();
    split::chunks(text, n, [&](int64_t begin, int64_t end) {
      pieces_.push_back({text + begin, end - begin, string_key(text + begin, end - begin)});
      if (cache_chunks_) cache.prefetch(pieces_.back().key);
    });
    found_.resize(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); ++i) found_[i] = cached(pieces_[i]);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (found_[i] == kNone) {
        analyse(pieces_[i].text, pieces_[i].size, words_, loose);
        continue;
      }
      chunks.push_back(found_[i]);
      if (needs_words_)
        for (uint32_t word : cache.words(found_[i])) words_.push_back(word);
    }
  }

  // The record of a chunk, kNone if it is not for the cache.
  XMC_INLINE uint32_t cached(const Piece& piece) {
    if (!cache_chunks_ || piece.size > ChunkCache::kMostBytes) return kNone;
    if (cache.full()) return cache.find(piece.key, piece.text, piece.size);
    const uint32_t chunk = cache.intern(piece.key, piece.text, piece.size, [&](auto& words, auto& grams) {
      analyse(piece.text, piece.size, words, grams);
    });
    cache.prefetch_record(chunk);
    return chunk;
  }

  // Appends the words of a chunk, and its unigrams and within-word character grams.
  void analyse(const uint8_t* chunk, int64_t n, std::vector<uint32_t>& words, std::vector<uint32_t>& grams) {
    if (has_words_)
      split::words(shape_.rule, chunk, 0, n, [&](int64_t begin, int64_t end) {
        words.push_back(dictionary_.word(chunk + begin, end - begin));
        keep_unigrams(words.back(), grams);
      });
    bool padded = false;
    for (int v = 0; v < (int)shape_.vectorizers.size(); ++v) {
      if (shape_.vectorizers[v].analyzer != Analyzer::char_wb) continue;
      if (!padded) pad(chunk, n);
      padded = true;
      read_padded(v, grams);
    }
  }

  void keep_unigrams(uint32_t word, std::vector<uint32_t>& grams) {
    if (word == kNone) return;
    for (int v = 0; v < (int)shape_.vectorizers.size(); ++v)
      if (shape_.vectorizers[v].analyzer == Analyzer::word && shape_.vectorizers[v].min_n == 1)
        keep(dictionary_.unigram(v, word), grams);
  }

  void pad(const uint8_t* chunk, int64_t n) {
    padded_.resize(n + 2 + unicode::kPadding);
    padded_[0] = ' ';
    std::copy(chunk, chunk + n, padded_.begin() + 1);
    padded_[n + 1] = ' ';
    split::character_starts(padded_.data(), n + 2, starts_);
  }

  // Character grams of " chunk ". A chunk no longer than n gives itself once, and no longer grams.
  void read_padded(int v, std::vector<uint32_t>& grams) {
    const VectorizerShape& shape = shape_.vectorizers[v];
    const int64_t length = (int64_t)starts_.size() - 1;
    for (int64_t n = shape.min_n; n <= shape.max_n; ++n) {
      windows(v, padded_.data(), std::min(n, length), grams);
      if (n >= length) break;
    }
  }

  void read_characters(int v, const uint8_t* text, int64_t n) {
    split::collapse_spaces(text, n, padded_);
    const int64_t bytes = (int64_t)padded_.size();
    padded_.resize(bytes + unicode::kPadding);
    split::character_starts(padded_.data(), bytes, starts_);
    const VectorizerShape& shape = shape_.vectorizers[v];
    const int64_t longest = std::min(shape.max_n, (int64_t)starts_.size() - 1);
    for (int64_t width = shape.min_n; width <= longest; ++width) windows(v, padded_.data(), width, loose);
  }

  // Every run of `width` characters of the text that starts_ divides.
  XMC_INLINE void windows(int v, const uint8_t* text, int64_t width, std::vector<uint32_t>& grams) {
    const int64_t length = (int64_t)starts_.size() - 1;
    for (int64_t i = 0; i + width <= length; ++i)
      keep(dictionary_.chars(v, text + starts_[i], starts_[i + width] - starts_[i]), grams);
  }

  void read_word_grams(int v, int64_t max_n) {
    const int64_t count = (int64_t)words_.size();
    max_n = std::min({max_n, count, dictionary_.levels(v)});
    if (max_n < 2) return;
    nodes_ = words_;
    for (int64_t n = 2; n <= max_n; ++n) {
      const int64_t grams = count - n + 1;
      for (int64_t i = 0; i < grams; ++i)
        if (nodes_[i] != kNone) dictionary_.prefetch_pair(v, n, nodes_[i], words_[i + n - 1]);
      for (int64_t i = 0; i < grams; ++i) {
        const uint32_t word = words_[i + n - 1];
        if (nodes_[i] == kNone || word == kNone) {
          nodes_[i] = kNone;
          continue;
        }
        const Gram gram = dictionary_.pair(v, n, nodes_[i], word);
        nodes_[i] = gram.node;
        keep(gram.value, loose);
      }
    }
  }

  static XMC_INLINE void keep(uint32_t value, std::vector<uint32_t>& grams) {
    if (value != kNone) grams.push_back(value);
  }

  const TextShape& shape_;
  Dictionary& dictionary_;
  const bool cache_chunks_;
  bool has_words_ = false, needs_words_ = false, needs_chunks_ = false;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> found_, words_, nodes_;
  std::vector<uint8_t> padded_;
  std::vector<int64_t> starts_;
};

}  // namespace xmc
