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

// A normalised document, followed by padding.
struct Text {
  const uint8_t* data;
  int64_t size;
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

  // Reads a group of documents: fills documents[0:texts.size()). It goes through the group stage by stage,
  // so that the memory a stage needs is under way while the stage before it works on other documents.
  void read(Span<const Text> texts) {
    if ((int64_t)documents.size() < texts.size()) documents.resize(texts.size());
    const Span<Document> group(documents.data(), texts.size());
    for (int64_t d = 0; d < texts.size(); ++d) group[d].start(texts[d]);
    if (needs_chunks_) read_chunks(group);
    for (int v = 0; v < (int)shape_.vectorizers.size(); ++v) {
      const VectorizerShape& shape = shape_.vectorizers[v];
      if (shape.analyzer == Analyzer::word && shape.max_n >= 2) read_word_grams(v, shape.max_n, group);
      if (shape.analyzer == Analyzer::chars)
        for (Document& document : group) read_characters(v, document);
    }
  }

  ChunkCache cache;
  struct Document {
    Text text;
    std::vector<uint32_t> chunks;  // cached chunks, in order
    std::vector<uint32_t> loose;   // its other grams, with repetitions
    std::vector<uint32_t> words, nodes;
    size_t pieces_end;

    void start(const Text& of) {
      text = of;
      chunks.clear();
      loose.clear();
      words.clear();
    }
  };
  std::vector<Document> documents;

 private:
  struct Piece {
    const uint8_t* text;
    int64_t size;
    uint64_t key;
  };

  void read_chunks(Span<Document> group) {
    pieces_.clear();
    for (Document& document : group) {
      const uint8_t* text = document.text.data;
      split::chunks(text, document.text.size, [&](int64_t begin, int64_t end) {
        pieces_.push_back({text + begin, end - begin, string_key(text + begin, end - begin)});
        if (cache_chunks_) cache.prefetch(pieces_.back().key);
      });
      document.pieces_end = pieces_.size();
    }
    found_.resize(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); ++i) found_[i] = cached(pieces_[i]);
    size_t i = 0;
    for (Document& document : group)
      for (; i < document.pieces_end; ++i) use_chunk(pieces_[i], found_[i], document);
  }

  XMC_INLINE void use_chunk(const Piece& piece, uint32_t chunk, Document& document) {
    if (chunk == kNone) return analyse(piece.text, piece.size, document.words, document.loose);
    document.chunks.push_back(chunk);
    if (needs_words_)
      for (uint32_t word : cache.words(chunk)) document.words.push_back(word);
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

  void read_characters(int v, Document& document) {
    split::collapse_spaces(document.text.data, document.text.size, padded_);
    const int64_t bytes = (int64_t)padded_.size();
    padded_.resize(bytes + unicode::kPadding);
    split::character_starts(padded_.data(), bytes, starts_);
    const VectorizerShape& shape = shape_.vectorizers[v];
    const int64_t longest = std::min(shape.max_n, (int64_t)starts_.size() - 1);
    for (int64_t width = shape.min_n; width <= longest; ++width)
      windows(v, padded_.data(), width, document.loose);
  }

  // Every run of `width` characters of the text that starts_ divides.
  XMC_INLINE void windows(int v, const uint8_t* text, int64_t width, std::vector<uint32_t>& grams) {
    const int64_t length = (int64_t)starts_.size() - 1;
    for (int64_t i = 0; i + width <= length; ++i)
      keep(dictionary_.chars(v, text + starts_[i], starts_[i + width] - starts_[i]), grams);
  }

  void read_word_grams(int v, int64_t max_n, Span<Document> group) {
    max_n = std::min(max_n, dictionary_.levels(v));
    for (Document& document : group) document.nodes = document.words;
    int64_t longest = 2;
    for (int64_t n = 2; n <= std::min(max_n, longest); ++n) {
      for (const Document& document : group) {
        const int64_t count = (int64_t)document.words.size();
        longest = std::max(longest, count);
        for (int64_t i = 0; i + n <= count; ++i) {
          const uint32_t prefix = document.nodes[i], word = document.words[i + n - 1];
          if (prefix != kNone) dictionary_.prefetch_pair(v, n, prefix, word);
        }
      }
      for (Document& document : group) extend_grams(v, n, document);
    }
  }

  // Makes the grams of n - 1 words in `nodes` grams of n words.
  XMC_INLINE void extend_grams(int v, int64_t n, Document& document) {
    for (int64_t i = 0; i + n <= (int64_t)document.words.size(); ++i) {
      const uint32_t word = document.words[i + n - 1];
      if (document.nodes[i] == kNone || word == kNone) {
        document.nodes[i] = kNone;
        continue;
      }
      const Gram gram = dictionary_.pair(v, n, document.nodes[i], word);
      document.nodes[i] = gram.node;
      keep(gram.value, document.loose);
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
  std::vector<uint32_t> found_;
  std::vector<uint8_t> padded_;
  std::vector<int64_t> starts_;
};

}  // namespace xmc
