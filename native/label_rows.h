// The label vectors of one tree node in the form the clustering reads: unit rows rounded to a grid, so
// that every sum and dot product is an integer and exact in any order. The tree then depends on neither
// threads, CPU, feature numbering nor the kind of centre.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "huge_pages.h"
#include "span.h"

namespace xmc {

// One unit is 2^15: an error of 1.5e-5 per value, far below what moves a label.
constexpr double kGrid = 32768.0;

// Storage that grows and is not cleared. A table by feature is visited at random: on huge pages when it is large.
template <class T, bool kTable = false>
class Buffer {
 public:
  Span<T> take(int64_t n) {
    if (n > capacity_) {
      items_.reset();
      capacity_ = 0;
      items_.reset(allocate(n));
      capacity_ = n;
    }
    return {items_.get(), n};
  }

  // The first n items; the rest of the memory is given back.
  Span<T> shrunk(int64_t n) {
    if (void* less = n > 0 && n < capacity_ ? std::realloc(items_.get(), (size_t)n * sizeof(T)) : nullptr) {
      (void)items_.release();
      items_.reset(static_cast<T*>(less));
      capacity_ = n;
    }
    return {items_.get(), n};
  }

 private:
  struct Free {
    void operator()(T* items) const { std::free(items); }
  };

  static T* allocate(int64_t n) {
    size_t bytes = (size_t)n * sizeof(T);
    const bool huge = kTable && bytes >= 2 * kHugePage;
    const size_t align = huge ? kHugePage : 64;
    bytes = (bytes + align - 1) / align * align;
    T* items = static_cast<T*>(std::aligned_alloc(align, bytes));
    if (!items) throw std::bad_alloc();
    if (huge) advise_huge_pages(items, bytes);
    return items;
  }

  std::unique_ptr<T, Free> items_;
  int64_t capacity_ = 0;
};

template <class T>
using Table = Buffer<T, true>;

// A row's entries are feature[p], value[p] for begin[r] <= p < end[r].
struct LabelRows {
  Span<int64_t> begin, end;
  Span<int32_t> feature;
  Span<int16_t> value;
  // Squares of the values on features that no other row of the node has: all that such features ever add.
  Span<int64_t> own;
  int64_t features = 0;

  int64_t count() const { return begin.size(); }
};

// The memory behind LabelRows; reused from node to node.
struct RowStore {
  Buffer<int64_t> begin, end, own;
  Buffer<int32_t> feature;
  Buffer<int16_t> value;

  LabelRows take(int64_t rows, int64_t entries, int64_t features) {
    LabelRows out;
    out.begin = begin.take(rows);
    out.end = end.take(rows);
    out.own = own.take(rows);
    out.feature = feature.take(entries);
    out.value = value.take(entries);
    out.features = features;
    return out;
  }
};

// Stores that nodes have let go of are handed out again, the last one first: depth first, that one fits.
class StorePool {
 public:
  std::shared_ptr<RowStore> take() {
    std::lock_guard<std::mutex> hold(idle_->lock);
    std::unique_ptr<RowStore> store;
    if (!idle_->stores.empty()) {
      store = std::move(idle_->stores.back());
      idle_->stores.pop_back();
    } else {
      store.reset(new RowStore);
    }
    return {store.release(), [idle = idle_](RowStore* returned) {
              std::lock_guard<std::mutex> hold_again(idle->lock);
              idle->stores.emplace_back(returned);
            }};
  }

 private:
  struct Idle {
    std::mutex lock;
    std::vector<std::unique_ptr<RowStore>> stores;
  };
  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
};

// Rows of Z scaled to unit length and rounded. Rows keep their features and order; a value that rounds
// to nothing is dropped.
inline LabelRows load_rows(const CsrView& z, RowStore& store) {
  LabelRows out = store.take(z.rows(), z.indices.size(), z.cols);
  int64_t at = 0;
  for (int64_t r = 0; r < z.rows(); ++r) {
    const auto features = z.row_indices(r);
    const auto values = z.row_data(r);
    double square = 0.0;
    for (int64_t p = 0; p < values.size(); ++p) square += (double)values[p] * values[p];
    const double scale = square > 0.0 ? kGrid / std::sqrt(square) : 0.0;
    out.begin[r] = at;
    for (int64_t p = 0; p < values.size(); ++p) {
      const double scaled = values[p] * scale;
      const int32_t rounded = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
      out.feature[at] = features[p];
      out.value[at] = (int16_t)std::max(-32767, std::min(32767, rounded));
      at += rounded != 0;
    }
    out.end[r] = at;
    out.own[r] = 0;
  }
  return out;
}

// Renumbers a node's features to a short range: a sparse accumulator (paper 1, section 5) that counts
// the rows with each feature and lists the features met. It clears itself through that list, so a node
// costs what it holds and not the number of features.
class FeatureCompactor {
 public:
  // The rows `members` of `from`, in that order, without the features that one row alone has. `store` may be that
  // of `from` if the members are increasing: what is written never passes what is read.
  LabelRows compact(const LabelRows& from, Span<const int32_t> members, RowStore& store) {
    const int64_t kept = number_features(from, members);
    int64_t entries = 0;
    for (int32_t r : members) entries += from.end[r] - from.begin[r];
    LabelRows out = store.take(members.size(), entries, kept);
    int64_t at = 0;
    for (int64_t i = 0; i < members.size(); ++i) {
      const int32_t r = members[i];
      const int64_t begin = from.begin[r], end = from.end[r];
      int64_t own = from.own[r];
      out.begin[i] = at;
      for (int64_t p = begin; p < end; ++p) {
        const int32_t id = number_[from.feature[p]];
        const int64_t v = from.value[p];
        out.feature[at] = id;
        out.value[at] = (int16_t)v;
        at += id >= 0;
        own += id < 0 ? v * v : 0;
      }
      out.end[i] = at;
      out.own[i] = own;
    }
    for (int32_t f : met_.slice(0, met_count_)) number_[f] = 0;
    return out;
  }

 private:
  int64_t number_features(const LabelRows& from, Span<const int32_t> members) {
    if (number_.size() < from.features) {
      number_ = numbers_.take(from.features);
      std::fill(number_.begin(), number_.end(), 0);
    }
    met_ = met_store_.take(from.features + 1);
    const Span<int32_t> rows_with = number_, met = met_;
    int64_t count = 0;
    for (int32_t r : members)
      for (int64_t p = from.begin[r], end = from.end[r]; p < end; ++p) {
        const int32_t f = from.feature[p];
        const int32_t rows = rows_with[f];
        met[count] = f;
        count += rows == 0;
        rows_with[f] = rows + 1;
      }
    met_count_ = count;
    int32_t kept = 0;
    for (int32_t f : met_.slice(0, met_count_)) number_[f] = number_[f] > 1 ? kept++ : -1;
    return kept;
  }

  Table<int32_t> numbers_;
  Span<int32_t> number_;  // rows with the feature, then its new number; 0 between calls
  Buffer<int32_t> met_store_;
  Span<int32_t> met_;
  int64_t met_count_ = 0;
};

}  // namespace xmc
