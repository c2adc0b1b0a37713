// Exact recovery: the score of every label, from a table of all their buckets, R numbers a label.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.h"
#include "sketch_pool.h"
#include "sketch_kernels.h"
#include "text_memory.h"

namespace xmc {

// Labels of a block: their running scores stay in the second-level cache, and each repetition's B scores come into the
// first once for so many (measured, B = 10,000: 16384 cost 10% more).
constexpr int64_t kLabelBlock = 65536;
// Rows that go through a block one after the other, while its part of the table is near.
constexpr int64_t kRowGroup = 8;

struct ExactScratch {
  std::vector<Lanes> scores, values;
  std::vector<std::vector<float>> rows;  // as probabilities, if they came as margins
  std::vector<BestLabels> best;
};

template <class Bucket>
class BucketTable {
 public:
  // `labels`: increasing, and outlive this.
  BucketTable(Span<const int32_t> labels, std::vector<BucketHash> hashes, int threads)
      : labels_(labels), hashes_(std::move(hashes)) {
    cells_.resize((size_t)(padded(labels.size()) * repetitions()));
    parallel_for(blocks(), threads, [&](int64_t block, int) {
      const Span<Bucket> cells = span_of(cells_).slice(cells_before(block), cells_before(block + 1));
      const Span<const int32_t> some = labels_.slice(block * kLabelBlock, std::min(size(), (block + 1) * kLabelBlock));
      const int64_t width = cells.size() / repetitions();
      for (int64_t r = 0; r < repetitions(); ++r) {
        const Span<Bucket> to = cells.slice(r * width, (r + 1) * width);
        hash_labels(hashes_[r], some, to);
        std::fill(to.begin() + some.size(), to.end(), Bucket(0));
      }
    });
  }

  int64_t bytes() const { return (int64_t)(cells_.size() * sizeof(Bucket)); }

  void recover(const BucketScores& given, const ScoreForm& form, const ScoreRule& rule, int threads,
               const RankedRows& out) const {
    const int64_t rows = given.rows();
    const int64_t group = std::max<int64_t>(1, std::min(kRowGroup, (rows + threads - 1) / threads));
    parallel_for((rows + group - 1) / group, threads, [&](int64_t g, int) {
      const auto scratch = pool_.take();
      recover_rows(given, g * group, std::min(rows, (g + 1) * group), form, rule, *scratch, out);
    });
  }

 private:
  int64_t size() const { return labels_.size(); }
  int64_t repetitions() const { return (int64_t)hashes_.size(); }
  int64_t blocks() const { return (size() + kLabelBlock - 1) / kLabelBlock; }
  static int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }
  int64_t cells_before(int64_t block) const {
    return padded(std::min(size(), block * kLabelBlock)) * repetitions();
  }

  void recover_rows(const BucketScores& given, int64_t first, int64_t last, const ScoreForm& form,
                    const ScoreRule& rule, ExactScratch& scratch, const RankedRows& out) const {
    const int64_t count = last - first;
    scratch.scores.resize((size_t)std::min(padded(size()), kLabelBlock) / kLanes);
    scratch.values.resize((size_t)repetitions());
    if ((int64_t)scratch.best.size() < count) scratch.best.resize((size_t)count);
    if ((int64_t)scratch.rows.size() < count) scratch.rows.resize((size_t)count);
    std::vector<Span<const float>> rows;
    for (int64_t i = 0; i < count; ++i) {
      scratch.best[i].reset(out.k);
      rows.push_back(as_scores(given.row(first + i), form, scratch.rows[i]));
    }
    for (int64_t block = 0; block < blocks(); ++block) {
      const Span<const Bucket> cells = span_of(cells_).slice(cells_before(block), cells_before(block + 1));
      const int64_t from = block * kLabelBlock, inside = std::min(size() - from, kLabelBlock);
      const Span<Lanes> scores = span_of(scratch.scores).slice(0, padded(inside) / kLanes);
      for (int64_t i = 0; i < count; ++i) {
        XMC_ON_THIS_CPU(block_scores(rule, rows[i], cells, span_of(scratch.values), scores));
        XMC_ON_THIS_CPU(offer_block(scores, from, inside, scratch.best[i]));
      }
    }
    for (int64_t i = 0; i < count; ++i) out.write(first + i, labels_, scratch.best[i]);
  }

  static Span<const float> as_scores(Span<const float> row, const ScoreForm& form, std::vector<float>& scratch) {
    bool finite = true;
    XMC_ON_THIS_CPU(check_finite(row, finite));
    if (!finite) throw NotFinite();
    if (is_identity(form)) return row;
    scratch.assign(row.begin(), row.end());
    const Span<float> scores(scratch);
    transform_row(scores, form);
    return scores;
  }

  Span<const int32_t> labels_;
  std::vector<BucketHash> hashes_;
  Buffer<Bucket> cells_;  // [block][R][labels of the block]
  mutable ScratchPool<ExactScratch> pool_;
};

}  // namespace xmc
