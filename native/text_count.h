// Counting a corpus: documents in parallel, each worker with its own dictionary, merged at the end; and
// the matrix of the counted documents without reading them again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel.h"
#include "span.h"
#include "text_dictionary.h"
#include "text_order.h"
#include "text_reader.h"
#include "text_rows.h"

namespace xmc {

// Documents as Arrow holds them: document i is data[offsets[i]:offsets[i + 1]).
struct Documents {
  Span<const int64_t> offsets;
  Span<const uint8_t> data;
  int64_t size() const { return offsets.size() - 1; }
};

// Cuts the documents into consecutive tasks of about equal size; returns where each starts, and the end.
inline std::vector<int64_t> cut_tasks(const Documents& documents) {
  constexpr int64_t kBytes = 1 << 17, kMost = 4096;  // documents
  std::vector<int64_t> start{0};
  for (int64_t i = 0; i < documents.size(); ++i)
    if (documents.offsets[i + 1] - documents.offsets[start.back()] >= kBytes || i + 1 - start.back() >= kMost)
      start.push_back(i + 1);
  if (start.back() < documents.size()) start.push_back(documents.size());
  return start;
}

// Calls body(texts) for each group of documents of a task: lower-cased where asked, padded.
template <class Body>
void for_each_group(const Documents& documents, int64_t begin, int64_t end, bool lower,
                    std::vector<uint8_t>& scratch, Body&& body) {
  constexpr int64_t kGroup = 16, kGroupBytes = 1 << 16;
  const int64_t from = documents.offsets[begin], to = documents.offsets[end];
  scratch.resize(to - from + unicode::kPadding);
  unicode::copy_padded(documents.data.slice(from, to).ptr, to - from, lower, scratch.data());
  Text group[kGroup];
  int64_t held = 0, bytes = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = documents.offsets[i], size = documents.offsets[i + 1] - at;
    group[held++] = {scratch.data() + (at - from), size};
    bytes += size;
    if (held < kGroup && bytes < kGroupBytes && i + 1 < end) continue;
    body(Span<const Text>(group, held));
    held = bytes = 0;
  }
}

class CorpusCounter {
 public:
  CorpusCounter(const TextShape& shape, int threads) : shape_(shape) {
    for (int w = 0; w < std::max(1, threads); ++w) workers_.push_back(std::make_unique<Worker>(shape_));
  }

  void add(const Documents& documents, bool keep_rows) {
    const std::vector<int64_t> start = cut_tasks(documents);
    const size_t first = rows_.size(), tasks = start.size() - 1;
    if (keep_rows) rows_.resize(first + tasks);
    parallel_for((int64_t)tasks, (int)workers_.size(), [&](int64_t task, int worker) {
      Rows* rows = keep_rows ? &rows_[first + task] : nullptr;
      if (rows) rows->worker = worker;
      Worker& w = *workers_[worker];
      for_each_group(documents, start[task], start[task + 1], shape_.lower, w.scratch,
                     [&](Span<const Text> texts) { w.count(texts, rows); });
    });
    documents_ += documents.size();
  }
  int64_t documents() const { return documents_; }
  // Distinct grams in memory; a gram that several workers met counts for each.
  int64_t held() const {
    int64_t grams = 0;
    for (const auto& worker : workers_) grams += worker->dictionary.grams();
    return grams;
  }

  // Ends the counting: one dictionary, and the grams of each vectorizer in order.
  void merge() {
    if (merged_) return;
    merged_ = true;
    GrowingDictionary& all = workers_[0]->dictionary;
    for (size_t w = 1; w < workers_.size(); ++w) workers_[w]->gram_in_all = all.absorb(workers_[w]->dictionary);
    GramOrder order(all);
    for (size_t v = 0; v < shape_.vectorizers.size(); ++v)
      places_.push_back(order.places((int)v, shape_.vectorizers[v]));
  }
  int64_t grams(int v) const { return (int64_t)places_[v].size(); }

  // Document frequency and number of occurrences of each gram of a vectorizer, in order.
  void counts(int v, Span<int64_t> df, Span<int64_t> occurrences) const {
    const GrowingDictionary& all = workers_[0]->dictionary;
    for (int64_t i = 0; i < grams(v); ++i) {
      const uint32_t gram = places_[v][i].gram;
      df[i] = all.counts[gram].documents;
      occurrences[i] = (int64_t)all.counts[gram].occurrences;
    }
  }

  // The text of the grams at these positions of the order; ends[i] is where the text of gram i ends.
  void spell(int v, Span<const int64_t> positions, Buffer<uint8_t>& text, Span<int64_t> ends) const {
    const int64_t threads = (int64_t)workers_.size();
    const int64_t part = std::max<int64_t>(1 << 14, (positions.size() + threads - 1) / threads);
    const int64_t parts = (positions.size() + part - 1) / part;
    auto slice = [&](auto span, int64_t p) {
      return span.slice(p * part, std::min((p + 1) * part, positions.size()));
    };
    std::vector<Buffer<uint8_t>> texts(parts);
    parallel_for(parts, (int)workers_.size(),
                 [&](int64_t p, int) { spell_part(v, slice(positions, p), texts[p], slice(ends, p)); });
    for (int64_t p = 0; p < parts; ++p) {
      for (int64_t& end : slice(ends, p)) end += (int64_t)text.size();
      text.insert(text.end(), texts[p].begin(), texts[p].end());
    }
  }

  // Row pointers of the kept rows if every gram is a feature: an upper bound otherwise.
  void bounds(Span<int64_t> indptr) const {
    int64_t row = 0;
    indptr[0] = 0;
    for (const Rows& rows : rows_)
      for (const RowShape& shape : rows.shapes) {
        indptr[row + 1] = indptr[row] + shape.distinct;
        ++row;
      }
  }

  // Gives feature features[i], or none if it is -1, to gram i of vectorizer v.
  void number(int v, Span<const int32_t> features) {
    feature_of_.resize(workers_[0]->dictionary.grams(), kNone);
    for (int64_t i = 0; i < features.size(); ++i) feature_of_[places_[v][i].gram] = (uint32_t)features[i];
  }

  // Writes the kept rows, after number(); indptr holds bounds() on entry and the true row pointers on return.
  // Ends the use of the counter.
  void write(const Weighting& weighting, int64_t features, int threads, Span<int64_t> indptr,
             Span<int32_t> indices, Span<float> data) {
    for (size_t w = 1; w < workers_.size(); ++w) {
      for (uint32_t& gram : workers_[w]->gram_in_all) gram = feature_of_[gram];
      workers_[w]->number(workers_[w]->gram_in_all);
    }
    workers_[0]->number(feature_of_);
    std::vector<int64_t> first{0};
    for (const Rows& rows : rows_) first.push_back(first.back() + (int64_t)rows.shapes.size());
    std::vector<std::unique_ptr<RowBuilder>> builders(std::max(1, threads));
    std::vector<int64_t> nnz(indptr.size() - 1);
    parallel_for((int64_t)rows_.size(), threads, [&](int64_t task, int worker) {
      if (!builders[worker]) builders[worker] = std::make_unique<RowBuilder>(features);
      const Span<int64_t> lengths(nnz.data() + first[task], first[task + 1] - first[task]);
      write_task(rows_[task], weighting, *builders[worker], indptr[first[task]], lengths, indices, data);
    });
    compact(Span<const int64_t>(nnz.data(), (int64_t)nnz.size()), first, indptr, indices, data);
  }

 private:
  struct RowShape {
    uint32_t chunks, loose, distinct;
  };
  struct Rows {  // the documents of one task
    int worker = 0;
    std::vector<uint32_t> chunks, loose;
    std::vector<RowShape> shapes;
  };

  struct Worker {
    explicit Worker(const TextShape& shape) : dictionary(shape), reader(shape, dictionary, true) {}

    void count(Span<const Text> texts, Rows* rows) {
      reader.read(texts);
      for (int64_t d = 0; d < texts.size(); ++d) {
        for (uint32_t gram : reader.documents[d].loose) dictionary.prefetch_count(gram);
        for (uint32_t chunk : reader.documents[d].chunks) {
          const Span<const uint32_t> grams = reader.cache.grams(chunk);
          if (!grams.empty()) dictionary.prefetch_count(grams[0]);  // its first word, rarer than what follows
        }
      }
      for (int64_t d = 0; d < texts.size(); ++d) {
        const auto& read = reader.documents[d];
        if (++document == 0) throw std::length_error("more than 2^32 - 1 documents for one thread");
        uint32_t distinct = 0;
        for (uint32_t chunk : read.chunks)
          for (uint32_t gram : reader.cache.grams(chunk)) distinct += dictionary.count(gram, document);
        for (uint32_t gram : read.loose) distinct += dictionary.count(gram, document);
        if (!rows) continue;
        rows->chunks.insert(rows->chunks.end(), read.chunks.begin(), read.chunks.end());
        rows->loose.insert(rows->loose.end(), read.loose.begin(), read.loose.end());
        rows->shapes.push_back({(uint32_t)read.chunks.size(), (uint32_t)read.loose.size(), distinct});
      }
    }

    // Turns the grams of the chunks into features.
    void number(Buffer<uint32_t>& feature_of_gram) {
      feature_of.swap(feature_of_gram);
      reader.cache.renumber(feature_of);
    }

    GrowingDictionary dictionary;
    DocumentReader<GrowingDictionary> reader;
    std::vector<uint8_t> scratch;
    Buffer<uint32_t> gram_in_all;  // gram of this worker -> gram of worker 0
    Buffer<uint32_t> feature_of;   // gram of this worker -> feature
    uint32_t document = 0;
  };

  void write_task(Rows& rows, const Weighting& weighting, RowBuilder& builder, int64_t at, Span<int64_t> nnz,
                  Span<int32_t> indices, Span<float> data) const {
    const Worker& worker = *workers_[rows.worker];
    const ChunkCache& cache = worker.reader.cache;
    const Span<const uint32_t> chunks(rows.chunks.data(), (int64_t)rows.chunks.size());
    const Span<const uint32_t> loose(rows.loose.data(), (int64_t)rows.loose.size());
    constexpr int64_t kAhead = 12;  // memory under way
    int64_t c = 0, l = 0;
    for (size_t r = 0; r < rows.shapes.size(); ++r) {
      for (const int64_t stop = l + rows.shapes[r].loose; l < stop; ++l) {
        __builtin_prefetch(&worker.feature_of[loose[std::min(l + kAhead, loose.size() - 1)]]);
        builder.add(worker.feature_of[loose[l]], weighting);
      }
      for (const int64_t stop = c + rows.shapes[r].chunks; c < stop; ++c) {
        cache.prefetch_record(chunks[std::min(c + kAhead, chunks.size() - 1)]);
        builder.add(cache.grams(chunks[c]), weighting);
      }
      nnz[r] = builder.sort();
      const int64_t end = at + nnz[r];
      builder.write(weighting, indices.slice(at, end).ptr, data.slice(at, end).ptr);
      at = end;
    }
    rows = Rows();
  }

  void spell_part(int v, Span<const int64_t> positions, Buffer<uint8_t>& text, Span<int64_t> ends) const {
    const GramOrder order(workers_[0]->dictionary);
    const int64_t last = positions.size() - 1;
    auto place = [&](int64_t i) -> const GramPlace& { return places_[v][positions[std::min(i, last)]]; };
    for (int64_t i = 0; i <= last; ++i) {
      order.prefetch_pair(v, place(i + 16));
      order.prefetch_word(v, place(i + 8));
      order.spell(v, place(i), text);
      ends[i] = (int64_t)text.size();
    }
  }

  // Closes the gaps that dropped grams left after each task.
  static void compact(Span<const int64_t> nnz, const std::vector<int64_t>& first, Span<int64_t> indptr,
                      Span<int32_t> indices, Span<float> data) {
    int64_t to = 0;
    for (size_t task = 0; task + 1 < first.size(); ++task) {
      const int64_t from = indptr[first[task]];
      int64_t count = 0;
      for (int64_t r = first[task]; r < first[task + 1]; ++r) {
        indptr[r] = to + count;
        count += nnz[r];
      }
      if (from != to && count) {
        std::memmove(indices.slice(to, to + count).ptr, indices.slice(from, from + count).ptr, 4 * count);
        std::memmove(data.slice(to, to + count).ptr, data.slice(from, from + count).ptr, 4 * count);
      }
      to += count;
    }
    indptr[first.back()] = to;
  }

  const TextShape shape_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Rows> rows_;
  std::vector<Buffer<GramPlace>> places_;
  Buffer<uint32_t> feature_of_;  // merged gram -> feature
  int64_t documents_ = 0;
  bool merged_ = false;
};

}  // namespace xmc
