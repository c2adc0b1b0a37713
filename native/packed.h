// The matchers of one tree level, packed for search.
//
// Per node: an open-addressing table from feature to the first of its entries, and the entries (child, weight)
// of a feature next to each other, so that one feature of a query costs one probe and one short run. Weights of dense
// columns lie apart (dense_margins.h). All arrays are flat and position-independent: they are saved as they are and
// memory-mapped.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "dense_margins.h"
#include "span.h"

namespace xmc {

struct Slot {
  int32_t feature;  // -1: empty
  uint32_t first;   // of its entries, counted from the node's first
};

struct PackedEntry {
  uint32_t child;  // number within the node; the top bit marks the last entry of a feature
  float weight;
};

constexpr uint32_t kLastEntry = 0x80000000u;

struct PackedLevel {
  Span<const int64_t> child_ptr;  // node -> children
  Span<const int64_t> slot_ptr;   // node -> slots
  Span<const int64_t> entry_ptr;  // node -> entries
  Span<const Slot> slots;
  Span<const PackedEntry> entries;
  Span<const float> bias;         // child -> bias
  DenseWeights dense;             // none: width 0

  int64_t nodes() const { return child_ptr.size() - 1; }
};

// Slots of a node with n distinct features: load at most 2/3, at least one empty slot to stop a probe.
inline int64_t table_size(int64_t features) { return features + features / 2 + 1; }

inline int64_t home_slot(int32_t feature, int64_t size) {
  const uint32_t h = (uint32_t)feature * 0x9E3779B1u;
  return (int64_t)(((uint64_t)h * (uint64_t)size) >> 32);
}

// Packs the sparse columns of the rows of W (one a child) of all nodes. `slot_ptr` and `entry_ptr` come first, then the arrays.
class Packer {
 public:
  Packer(const CsrView& W, Span<const int64_t> child_ptr) : W_(W), child_ptr_(child_ptr), seen_((size_t)(W.cols - W.width), -1) {}

  void sizes(Span<int64_t> slot_ptr, Span<int64_t> entry_ptr) {
    slot_ptr[0] = entry_ptr[0] = 0;
    for (int64_t node = 0; node + 1 < child_ptr_.size(); ++node) {
      const int64_t from = W_.indptr[child_ptr_[node]], to = W_.indptr[child_ptr_[node + 1]];
      int64_t distinct = 0;
      for (int64_t p = from; p < to; ++p)
        if (seen_[W_.indices[p]] != node) {
          seen_[W_.indices[p]] = (int32_t)node;
          ++distinct;
        }
      if (to - from > (int64_t)UINT32_MAX)
        throw std::overflow_error("one tree node has more than 2^32 weights: raise threshold, set max_weights or use "
                                  "a tree with more nodes");
      slot_ptr[node + 1] = slot_ptr[node] + table_size(distinct);
      entry_ptr[node + 1] = entry_ptr[node] + (to - from);
    }
  }

  void fill(Span<const int64_t> slot_ptr, Span<const int64_t> entry_ptr, Span<Slot> slots, Span<PackedEntry> entries) {
    for (int64_t i = 0; i < slots.size(); ++i) slots[i] = {-1, 0};
    for (int64_t node = 0; node + 1 < child_ptr_.size(); ++node) {
      auto table = slots.slice(slot_ptr[node], slot_ptr[node + 1]);
      auto out = entries.slice(entry_ptr[node], entry_ptr[node + 1]);
      const int64_t first = child_ptr_[node], last = child_ptr_[node + 1];
      // Count entries per feature in its slot, turn counts into starts in slot order, then place.
      for (int64_t c = first; c < last; ++c)
        for (int64_t p = W_.indptr[c]; p < W_.indptr[c + 1]; ++p) ++find(table, W_.indices[p]).first;
      uint32_t at = 0;
      for (int64_t i = 0; i < table.size(); ++i) {
        const uint32_t count = table[i].first;
        table[i].first = at;
        at += count;
      }
      for (int64_t c = first; c < last; ++c)
        for (int64_t p = W_.indptr[c]; p < W_.indptr[c + 1]; ++p)
          out[find(table, W_.indices[p]).first++] = {(uint32_t)(c - first), W_.data[p]};
      // Each start has moved to its end: move back and mark the last entry.
      uint32_t begin = 0;
      for (int64_t i = 0; i < table.size(); ++i) {
        if (table[i].feature < 0) continue;
        const uint32_t end = table[i].first;
        out[end - 1].child |= kLastEntry;
        table[i].first = begin;
        begin = end;
      }
    }
  }

 private:
  static Slot& find(Span<Slot> table, int32_t feature) {
    int64_t i = home_slot(feature, table.size());
    while (table[i].feature != feature) {
      if (table[i].feature < 0) {
        table[i].feature = feature;
        break;
      }
      if (++i == table.size()) i = 0;
    }
    return table[i];
  }

  const CsrView& W_;
  Span<const int64_t> child_ptr_;
  std::vector<int32_t> seen_;
};

}  // namespace xmc
