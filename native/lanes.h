// A growable array of 16-lane rows, zeroed on request, on huge pages when it is large: matcher weights
// are visited at random, and with 4 KiB pages the address translation alone misses the cache.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "huge_pages.h"
#include "simd.h"
#include "span.h"

namespace xmc {

struct alignas(64) Lanes {
  f32x16 v;
};

class LaneBuffer {
 public:
  LaneBuffer() = default;
  LaneBuffer(const LaneBuffer&) = delete;
  LaneBuffer& operator=(const LaneBuffer&) = delete;
  ~LaneBuffer() { std::free(rows_); }

  // `count` rows of zeros; keeps the memory it has when that is enough.
  Span<Lanes> zeroed(int64_t count) {
    reserve(count);
    if (count > 0) std::memset(static_cast<void*>(rows_), 0, (size_t)count * sizeof(Lanes));
    return {rows_, count};
  }

 private:
  void reserve(int64_t count) {
    if (count <= capacity_) return;
    std::free(rows_);
    rows_ = nullptr;
    capacity_ = 0;
    size_t bytes = (size_t)count * sizeof(Lanes);
    const size_t align = bytes >= 2 * kHugePage ? kHugePage : 128;  // pairs of rows together
    bytes = (bytes + align - 1) / align * align;
    rows_ = static_cast<Lanes*>(std::aligned_alloc(align, bytes));
    if (!rows_) throw std::bad_alloc();
    advise_huge_pages(rows_, bytes);
    capacity_ = (int64_t)(bytes / sizeof(Lanes));
  }

  Lanes* rows_ = nullptr;
  int64_t capacity_ = 0;
};

}  // namespace xmc
