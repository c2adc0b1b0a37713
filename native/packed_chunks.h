// Parts of one array, of known greatest size, filled in any order by many threads and packed in place.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "span.h"

namespace xmc {

// Chunk c may take [bounds[c], bounds[c + 1]). Chunks before it are packed as soon as they are complete,
// by whichever thread completes them, while they are still in its cache; a chunk that starts when all
// before it are packed is written at its final place. One thread therefore never moves anything.
class PackedChunks {
 public:
  explicit PackedChunks(std::vector<int64_t> bounds)
      : bounds_(std::move(bounds)), at_(bounds_.size()), size_(bounds_.size(), -1) {}

  // Where chunk c is to be written.
  int64_t start(int64_t c) {
    std::lock_guard<std::mutex> hold(lock_);
    return at_[c] = packed_ == c ? end_ : bounds_[c];
  }

  // Chunk c is written: `size` entries. move(from, to, size) moves entries, in increasing order of `to`.
  template <class Move>
  void complete(int64_t c, int64_t size, Move&& move) {
    std::unique_lock<std::mutex> hold(lock_);
    XMC_CHECK(size <= bounds_[c + 1] - bounds_[c], "chunk larger than its bound");
    size_[c] = size;
    if (moving_) return;
    moving_ = true;
    while (packed_ + 1 < (int64_t)bounds_.size() && size_[packed_] >= 0) {
      const int64_t from = at_[packed_], to = end_, count = size_[packed_];
      hold.unlock();
      if (from != to && count) move(from, to, count);
      hold.lock();
      end_ += count;
      ++packed_;
    }
    moving_ = false;
  }

  // Entries in all, once every chunk is complete.
  int64_t size() const { return end_; }

 private:
  std::vector<int64_t> bounds_, at_, size_;
  std::mutex lock_;
  int64_t packed_ = 0, end_ = 0;
  bool moving_ = false;
};

}  // namespace xmc
