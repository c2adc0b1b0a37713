// Arrays of zeros as long as X has columns, kept from one training to the next: a task trains hundreds of units, and
// clearing such an array for each of them would take as long as the smaller ones.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "huge_pages.h"

namespace xmc {

class ZeroedSlots {
 public:
  // At least `size` zeros.
  static std::vector<int32_t> take(size_t size) {
    {
      const std::lock_guard<std::mutex> lock(mutex());
      auto& kept = free();
      for (size_t i = 0; i < kept.size(); ++i)
        if (kept[i].size() >= size) {
          std::vector<int32_t> found = std::move(kept[i]);
          kept.erase(kept.begin() + i);
          return found;
        }
      kept.clear();  // too small for what is trained now
    }
    std::vector<int32_t> slots;
    slots.reserve(size);
    advise_huge_pages(slots.data(), size * sizeof(int32_t));
    slots.resize(size, 0);
    return slots;
  }

  // Takes them back, all zero again.
  static void give_back(std::vector<int32_t>&& slots) {
    const std::lock_guard<std::mutex> lock(mutex());
    auto& kept = free();
    size_t held = slots.size();
    for (const auto& other : kept) held += other.size();
    if (held <= kMostHeld) kept.push_back(std::move(slots));
  }

 private:
  static constexpr size_t kMostHeld = size_t{1} << 26;  // numbers, of all arrays: 256 MB
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::vector<std::vector<int32_t>>& free() {
    static std::vector<std::vector<int32_t>> arrays;
    return arrays;
  }
};

}  // namespace xmc
