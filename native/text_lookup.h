// The frozen dictionary of a fitted model: flat arrays that may be mapped from files, built from the text
// of the grams alone, so that it is the same whoever counted them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "text_count.h"
#include "text_reader.h"
#include "text_rows.h"
#include "text_table.h"

namespace xmc {

// Looks grams up; values are features. Whatever the arrays hold, no look-up leaves them.
class FrozenDictionary {
 public:
  struct Tables {
    Span<const int32_t> unigram;   // word -> feature or -1
    std::vector<SlotView> levels;  // [n - 2]
    SlotView slots;                // character grams
    StringView strings;
  };

  uint32_t word(const uint8_t* p, int64_t n) const { return find(word_slots, words, p, n).node; }
  uint32_t unigram(int v, uint32_t word) const {
    return word < tables[v].unigram.size() ? (uint32_t)tables[v].unigram[word] : kNone;
  }
  uint32_t chars(int v, const uint8_t* p, int64_t n) const {
    return find(tables[v].slots, tables[v].strings, p, n).value;
  }
  int64_t levels(int v) const { return (int64_t)tables[v].levels.size() + 1; }
  void prefetch_pair(int v, int64_t n, uint32_t prefix, uint32_t word) const {
    tables[v].levels[n - 2].prefetch(pair_key(prefix, word));
  }
  Gram pair(int v, int64_t n, uint32_t prefix, uint32_t word) const {
    const Slot* slot = tables[v].levels[n - 2].find(pair_key(prefix, word), [](const Slot&) { return true; });
    return slot ? Gram{slot->node, slot->value} : Gram{kNone, kNone};
  }

  // The feature of a gram given as text, padded; kNone if it has none.
  uint32_t feature(int v, Analyzer analyzer, const uint8_t* gram, int64_t n) const {
    if (n == 0) return kNone;
    if (analyzer != Analyzer::word) return chars(v, gram, n);
    Gram found{kNone, kNone};
    int64_t words_read = 0;
    for (int64_t at = 0; at <= n; ++words_read) {
      const int64_t end = std::find(gram + at, gram + n, ' ') - gram;
      const uint32_t next = end > at ? word(gram + at, end - at) : kNone;
      if (next == kNone || words_read >= levels(v)) return kNone;
      found = words_read ? pair(v, words_read + 1, found.node, next) : Gram{next, unigram(v, next)};
      if (found.node == kNone) return kNone;
      at = end + 1;
    }
    return found.value;
  }

  StringView words;
  SlotView word_slots;
  std::vector<Tables> tables;

 private:
  static XMC_INLINE Gram find(const SlotView& slots, const StringView& strings, const uint8_t* p, int64_t n) {
    const Slot* slot = slots.find(string_key(p, n), [&](const Slot& candidate) {
      return n <= kExactBytes || strings.equals(candidate.node, p, n);
    });
    return slot ? Gram{slot->node, slot->value} : Gram{kNone, kNone};
  }
};

// Makes the arrays of a FrozenDictionary. Their bytes depend only on the grams and their order.
class LookupBuilder {
 public:
  struct Tables {
    std::vector<int32_t> unigram;
    std::vector<PairTable> levels;
    StringTable strings;
  };

  explicit LookupBuilder(const TextShape& shape) : shape_(shape), tables(shape.vectorizers.size()) {}

  // Gives feature features[i] to gram i of the list, of vectorizer vectorizers[i].
  void add(Span<const uint8_t> vectorizers, Span<const int32_t> features, const Documents& grams) {
    constexpr int64_t kGroup = 16;  // look-ups under way
    for (int64_t i = 0; i < grams.size(); i += kGroup) {
      text_.clear();
      parts_.clear();
      pending_.clear();
      for (int64_t g = i; g < std::min(i + kGroup, grams.size()); ++g)
        read(g, vectorizers[g], features[g], grams);
      for (Part& part : parts_)
        part.node = words.intern(part.key, text_.data() + part.begin, part.size).first->node;
      for (const Pending& gram : pending_)
        if (gram.end - gram.begin > 1) prefetch_pair(gram);
      for (const Pending& gram : pending_)
        if (!add_words(gram)) refuse(gram.number);
    }
    for (Tables& t : tables) t.unigram.resize(words.size(), -1);
  }

 private:
  struct Part {  // a word of a gram
    int64_t begin, size;  // in text_
    uint64_t key;
    uint32_t node;
  };
  struct Pending {  // a word gram
    int64_t number;
    int vectorizer;
    int32_t feature;
    size_t begin, end;  // in parts_
  };
  const TextShape& shape_;
  std::vector<uint8_t> text_;
  std::vector<Part> parts_;
  std::vector<Pending> pending_;

 public:
  StringTable words;
  std::vector<Tables> tables;

 private:
  [[noreturn]] static void refuse(int64_t number, const char* why = "is empty, given twice, or has an empty word") {
    throw std::invalid_argument("gram " + std::to_string(number) + " " + why);
  }

  // Adds a character gram; divides a word gram into parts.
  void read(int64_t number, int v, int32_t feature, const Documents& grams) {
    if (v >= (int)tables.size()) refuse(number, "names no vectorizer");
    const Span<const uint8_t> gram = grams.data.slice(grams.offsets[number], grams.offsets[number + 1]);
    if (gram.empty()) refuse(number);
    const int64_t begin = (int64_t)text_.size(), end = begin + gram.size();
    text_.insert(text_.end(), gram.begin(), gram.end());
    text_.resize(end + unicode::kPadding);
    if (shape_.vectorizers[v].analyzer != Analyzer::word) {
      const auto found = tables[v].strings.intern(text_.data() + begin, gram.size());
      if (!found.second) refuse(number);
      found.first->value = (uint32_t)feature;
      return;
    }
    const size_t first = parts_.size();
    for (int64_t at = begin, stop; at <= end; at = stop + 1) {
      stop = std::find(text_.begin() + at, text_.begin() + end, ' ') - text_.begin();
      if (stop == at) refuse(number);
      parts_.push_back({at, stop - at, string_key(text_.data() + at, stop - at), kNone});
      words.prefetch_slot(parts_.back().key);
    }
    pending_.push_back({number, v, feature, first, parts_.size()});
  }

  void prefetch_pair(const Pending& gram) const {
    const auto& levels = tables[gram.vectorizer].levels;
    if (!levels.empty()) levels[0].prefetch(pair_key(parts_[gram.begin].node, parts_[gram.begin + 1].node));
  }

  bool add_words(const Pending& gram) {
    Tables& t = tables[gram.vectorizer];
    uint32_t node = parts_[gram.begin].node;
    Slot* slot = nullptr;
    for (size_t p = gram.begin + 1; p < gram.end; ++p) {
      const size_t level = p - gram.begin - 1;
      if (level >= t.levels.size()) t.levels.emplace_back();
      slot = t.levels[level].intern(pair_key(node, parts_[p].node)).first;
      node = slot->node;
    }
    if (slot) {
      if (slot->value != kNone) return false;
      slot->value = (uint32_t)gram.feature;
      return true;
    }
    if (t.unigram.size() <= node) t.unigram.resize(std::max<size_t>(node + 1, 2 * t.unigram.size()), -1);
    if (t.unigram[node] >= 0) return false;
    t.unigram[node] = gram.feature;
    return true;
  }
};

// Rows of new documents, gathered per task and written out when their size is known.
class Transformer {
 public:
  Transformer(const TextShape& shape, FrozenDictionary& dictionary, const Weighting& weighting,
              int64_t features)
      : shape_(shape), dictionary_(dictionary), weighting_(weighting), features_(features) {}

  // Reads the documents; returns the number of values.
  int64_t run(const Documents& documents, int threads) {
    start_ = cut_tasks(documents);
    tasks_.assign(start_.size() - 1, Task());
    std::vector<std::unique_ptr<Worker>> workers(std::max(1, threads));
    parallel_for((int64_t)tasks_.size(), threads, [&](int64_t t, int w) {
      if (!workers[w]) workers[w] = std::make_unique<Worker>(shape_, dictionary_, features_, true);
      for_each_group(documents, start_[t], start_[t + 1], shape_.lower, workers[w]->scratch,
                     [&](Span<const Text> texts) { read(texts, *workers[w], tasks_[t]); });
    });
    int64_t nnz = 0;
    for (const Task& task : tasks_) nnz += (int64_t)task.indices.size();
    return nnz;
  }

  void write(Span<int64_t> indptr, Span<int32_t> indices, Span<float> data, int threads) {
    indptr[0] = 0;
    std::vector<int64_t> first{0};
    for (size_t t = 0; t < tasks_.size(); ++t) {
      for (size_t r = 0; r < tasks_[t].ends.size(); ++r)
        indptr[start_[t] + (int64_t)r + 1] = first.back() + tasks_[t].ends[r];
      first.push_back(first.back() + (int64_t)tasks_[t].indices.size());
    }
    parallel_for((int64_t)tasks_.size(), threads, [&](int64_t t, int) {
      std::copy(tasks_[t].indices.begin(), tasks_[t].indices.end(), indices.slice(first[t], first[t + 1]).ptr);
      std::copy(tasks_[t].data.begin(), tasks_[t].data.end(), data.slice(first[t], first[t + 1]).ptr);
      tasks_[t] = Task();
    });
  }

  struct Worker {
    Worker(const TextShape& shape, FrozenDictionary& dictionary, int64_t features, bool cache_chunks)
        : reader(shape, dictionary, cache_chunks), builder(features) {}
    DocumentReader<FrozenDictionary> reader;
    RowBuilder builder;
    std::vector<uint8_t> scratch;
  };

  // Sorts the features of document d of the group just read; returns their number.
  static int64_t sort(size_t d, const Weighting& weighting, Worker& worker) {
    const auto& read = worker.reader.documents[d];
    worker.builder.add({read.loose.data(), (int64_t)read.loose.size()}, weighting);
    for (uint32_t chunk : read.chunks) worker.builder.add(worker.reader.cache.grams(chunk), weighting);
    return worker.builder.sort();
  }

 private:
  struct Task {
    Buffer<int32_t> indices;
    Buffer<float> data;
    std::vector<int64_t> ends;
  };

  void read(Span<const Text> texts, Worker& worker, Task& task) const {
    worker.reader.read(texts);
    for (int64_t d = 0; d < texts.size(); ++d) {
      const int64_t count = sort(d, weighting_, worker), at = (int64_t)task.indices.size();
      task.indices.resize(at + count);
      task.data.resize(at + count);
      worker.builder.write(weighting_, task.indices.data() + at, task.data.data() + at);
      task.ends.push_back(at + count);
    }
  }

  const TextShape& shape_;
  FrozenDictionary& dictionary_;
  const Weighting& weighting_;
  const int64_t features_;
  std::vector<int64_t> start_;
  std::vector<Task> tasks_;
};

// One document at a time, without building anything per call.
class SingleReader {
 public:
  SingleReader(const TextShape& shape, FrozenDictionary& dictionary, int64_t features)
      : lower_(shape.lower), worker_(shape, dictionary, features, false) {}

  int64_t read(const uint8_t* text, int64_t n, const Weighting& weighting) {
    worker_.scratch.resize(n + unicode::kPadding);
    unicode::copy_padded(text, n, lower_, worker_.scratch.data());
    const Text one{worker_.scratch.data(), n};
    worker_.reader.read(Span<const Text>(&one, 1));
    return Transformer::sort(0, weighting, worker_);
  }
  void write(const Weighting& weighting, int32_t* indices, float* data) {
    worker_.builder.write(weighting, indices, data);
  }

 private:
  const bool lower_;
  Transformer::Worker worker_;
};

}  // namespace xmc
