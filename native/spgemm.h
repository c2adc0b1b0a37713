// C = A B by rows (Gustavson): row r of C adds up the rows of B named by row r of A. The result is
// allocated once, by an upper bound, and filled and packed in place (paper 1, section 5).
#pragma once
#include <atomic>

#include "accumulate.h"
#include "packed_chunks.h"
#include "parallel.h"
#include "row_values.h"

namespace xmc {

// Rows of B are visited in no order: ask for one this many entries of A before it is needed.
constexpr int64_t kAhead = 8;
constexpr int64_t kAheadEntries = 128;
// Up to this many rows are merged (measured: at 8 merging and ranking cost the same); more are ranked,
// unless the row is so wide that reading the bitmap off would cost more than the terms themselves.
constexpr int64_t kMergeRows = 8;
constexpr int64_t kColumnsPerTerm = 8 * 4096;
constexpr int64_t kMergeTerms = 1 << 16;  // the merge's buffers stay small
// Terms in one chunk of rows: its result is a few hundred kilobytes, so it is packed from the cache.
constexpr int64_t kChunkTerms = 1 << 17;

template <class T>
XMC_INLINE void prefetch(const T* from, int64_t size) {
  const char *line = (const char*)from, *end = (const char*)(from + size);
  for (; line < end; line += 64) __builtin_prefetch(line);
  __builtin_prefetch(end - 1);  // an unaligned row reaches into one line more
}

template <class V>
struct Product {
  CsrView A;
  Span<const int64_t> indptr;  // of B
  Span<const int32_t> indices;
  Span<const V> data;
  int64_t cols = 0;

  double shift = 0.0;         // WeightedRow::shift
  bool normalise = false;     // rows of C to length 1; a row of length 0 is left empty
  int64_t max_features = -1;  // entries kept in a row of C, the largest; -1: all

  XMC_INLINE int64_t terms(int64_t p) const { return indptr[A.indices[p] + 1] - indptr[A.indices[p]]; }
  XMC_INLINE WeightedRow<V> row(int64_t p) const {
    const int64_t from = indptr[A.indices[p]], to = indptr[A.indices[p] + 1];
    return {indices.slice(from, to), data.slice(from, to), A.data[p], shift};
  }
  XMC_INLINE void prefetch_after(int64_t p) const {
    if (p + 2 * kAhead < A.indices.size()) __builtin_prefetch(&indptr[A.indices[p + 2 * kAhead]]);
    if (p + kAhead >= A.indices.size()) return;
    const int64_t r = A.indices[p + kAhead], from = indptr[r];
    const int64_t size = std::min(indptr[r + 1] - from, kAheadEntries);
    prefetch(indices.ptr + from, size);
    prefetch(data.ptr + from, size);
  }
};

// The result: columns, and values as float or as double (the other is empty).
struct ProductRows {
  Span<int64_t> nnz;
  Span<int32_t> indices;
  Span<float> floats;
  Span<double> doubles;
};

// What a product reports besides its entries.
struct ProductCounts {
  std::atomic<int64_t> cut_rows{0}, cut_entries{0};
  std::atomic<bool> overflow{false};
};

// One worker's buffers.
struct Workspace {
  RankedColumns columns;
  MergedTerms terms;
  std::vector<double> sums_, magnitudes;

  Span<double> sums(int64_t size) {
    if ((int64_t)sums_.size() < size) sums_.resize(size);
    return Span<double>(sums_).slice(0, size);
  }
};

// A row of A B by rank: its columns go to `columns`; returns its sums.
template <class V>
XMC_INLINE Span<double> sum_by_rank(const Product<V>& product, int64_t r, Workspace& work,
                                    Span<int32_t> columns) {
  const int64_t from = product.A.indptr[r], to = product.A.indptr[r + 1];
  work.columns.reserve(product.cols);
  for (int64_t p = from; p < to; ++p) {
    product.prefetch_after(p);
    work.columns.insert(product.row(p).indices);
  }
  const int64_t n = work.columns.read_off(columns);
  const Span<double> sums = work.sums(n);
  std::fill(sums.begin(), sums.end(), 0.0);
  for (int64_t p = from; p < to; ++p) work.columns.add(product.row(p), sums);
  work.columns.clear(columns.slice(0, n));
  return sums;
}

// The same by merging.
template <class V>
XMC_INLINE Span<double> sum_by_merging(const Product<V>& product, int64_t r, int64_t terms, Workspace& work,
                                       Span<int32_t> columns) {
  const int64_t from = product.A.indptr[r], to = product.A.indptr[r + 1];
  work.terms.reserve(terms, to - from);
  for (int64_t p = from; p < to; ++p) {
    product.prefetch_after(p);
    work.terms.append(product.row(p));
  }
  const Span<double> sums = work.sums(terms);
  return sums.slice(0, work.terms.sum_up(columns, sums));
}

// The same for a single row of B.
template <class V>
XMC_INLINE Span<double> scale_one(const Product<V>& product, int64_t p, Workspace& work,
                                  Span<int32_t> columns) {
  product.prefetch_after(p);
  const WeightedRow<V> row = product.row(p);
  const Span<double> sums = work.sums(row.size());
  for (int64_t i = 0; i < row.size(); ++i) {
    columns[i] = row.indices[i];
    sums[i] = row[i];
  }
  return sums;
}

// Row r of the product into `out` at `at`; returns its entries.
template <class V>
XMC_INLINE int64_t multiply_row(const Product<V>& product, int64_t r, int64_t at, Workspace& work,
                                const ProductRows& out, ProductCounts& counts) {
  const int64_t from = product.A.indptr[r], to = product.A.indptr[r + 1];
  int64_t terms = 0;
  for (int64_t p = from; p < to; ++p) terms += product.terms(p);
  if (!terms) return 0;
  const Span<int32_t> columns = out.indices.slice(at, at + std::min(terms, product.cols) + kSlack);
  const bool few = to - from <= kMergeRows || terms * kColumnsPerTerm < product.cols;
  const bool merged = few && terms <= kMergeTerms;
  Span<double> sums = to - from == 1 ? scale_one(product, from, work, columns)
                      : merged       ? sum_by_merging(product, r, terms, work, columns)
                                     : sum_by_rank(product, r, work, columns);
  int64_t n = sums.size();
  if (product.max_features >= 0 && n > product.max_features) {
    const int64_t kept = keep_largest(columns.slice(0, n), sums, product.max_features, work.magnitudes);
    counts.cut_rows += 1;
    counts.cut_entries += n - kept;
    sums = sums.slice(0, n = kept);
  }
  double scale = 1.0;
  if (product.normalise) {
    const double squares = sum_of_squares<double>(sums);
    if (squares == 0.0) return 0;
    scale = 1.0 / std::sqrt(squares);
  }
  const bool fits = out.doubles.empty() ? store<float>(sums, scale, out.floats.slice(at, at + n))
                                        : store<double>(sums, scale, out.doubles.slice(at, at + n));
  if (!fits) counts.overflow = true;
  return n;
}

// Rows [first, last) into `out` from `at` on; `end` is where they end.
template <class V>
XMC_INLINE void multiply_rows_body(const Product<V>& product, int64_t first, int64_t last, int64_t at,
                                   Workspace& work, const ProductRows& out, ProductCounts& counts,
                                   int64_t& end) {
  for (int64_t r = first; r < last; ++r) {
    out.nnz[r] = multiply_row(product, r, at, work, out, counts);
    at += out.nnz[r];
  }
  end = at;
}

XMC_MULTIVERSION(multiply_rows,
                 (const Product<float>& product, int64_t first, int64_t last, int64_t at, Workspace& work,
                  const ProductRows& out, ProductCounts& counts, int64_t& end),
                 (product, first, last, at, work, out, counts, end))
XMC_MULTIVERSION(multiply_rows,
                 (const Product<double>& product, int64_t first, int64_t last, int64_t at, Workspace& work,
                  const ProductRows& out, ProductCounts& counts, int64_t& end),
                 (product, first, last, at, work, out, counts, end))

// bounds[r]: the most entries the rows before r can have.
template <class V>
void bound_entries(const Product<V>& product, Span<int64_t> bounds) {
  bounds[0] = 0;
  for (int64_t r = 0; r < product.A.rows(); ++r) {
    int64_t terms = 0;
    for (int64_t p = product.A.indptr[r]; p < product.A.indptr[r + 1]; ++p) terms += product.terms(p);
    bounds[r + 1] = bounds[r] + std::min(terms, product.cols);
  }
}

// Cuts the rows where another kChunkTerms entries are possible: enough chunks for any thread count.
inline std::vector<int64_t> chunk_rows(Span<const int64_t> bounds) {
  std::vector<int64_t> starts{0};
  const int64_t rows = bounds.size() - 1;
  for (int64_t r = 1; r < rows; ++r)
    if (bounds[r + 1] - bounds[starts.back()] > kChunkTerms) starts.push_back(r);
  starts.push_back(rows);
  return starts;
}

// Where each chunk's room starts, and the end of the last one's.
inline std::vector<int64_t> chunk_room(const std::vector<int64_t>& starts, Span<const int64_t> bounds) {
  std::vector<int64_t> room;
  for (int64_t r : starts) room.push_back(bounds[r] + kSlack * (int64_t)room.size());
  return room;
}

// Entries to allocate for a product.
inline int64_t room_needed(Span<const int64_t> bounds) { return chunk_room(chunk_rows(bounds), bounds).back(); }

// All of A B; `out` has room_needed(bounds) entries. Returns the entries.
template <class V>
int64_t multiply(const Product<V>& product, Span<const int64_t> bounds, const ProductRows& out,
                 ProductCounts& counts, int threads) {
  const std::vector<int64_t> starts = chunk_rows(bounds);
  PackedChunks packed(chunk_room(starts, bounds));
  std::vector<Workspace> work(std::max(threads, 1));
  parallel_for((int64_t)starts.size() - 1, threads, [&](int64_t c, int worker) {
    const int64_t at = packed.start(c);
    int64_t end = at;
    multiply_rows(product, starts[c], starts[c + 1], at, work[worker], out, counts, end);
    packed.complete(c, end - at, [&](int64_t from, int64_t to, int64_t size) {
      std::memmove(&out.indices[to], &out.indices[from], size * sizeof(int32_t));
      if (!out.floats.empty()) std::memmove(&out.floats[to], &out.floats[from], size * sizeof(float));
      if (!out.doubles.empty()) std::memmove(&out.doubles[to], &out.doubles[from], size * sizeof(double));
    });
  });
  return packed.size();
}

// Each row divided by its length, in double and in the order of its entries; a row of length 0 stays.
inline void normalise_rows(Span<const int64_t> indptr, Span<const float> data, Span<float> out, int threads) {
  const int64_t rows = indptr.size() - 1, block = 4096;
  parallel_for((rows + block - 1) / block, threads, [&](int64_t b, int) {
    for (int64_t r = b * block; r < std::min(rows, (b + 1) * block); ++r) {
      const Span<const float> row = data.slice(indptr[r], indptr[r + 1]);
      const double squares = sum_of_squares<float>(row), scale = squares > 0.0 ? 1.0 / std::sqrt(squares) : 0.0;
      for (int64_t i = 0; i < row.size(); ++i) out[indptr[r] + i] = (float)(row[i] * scale);
    }
  });
}

}  // namespace xmc
