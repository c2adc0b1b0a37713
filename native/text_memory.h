// Memory for large tables that are read at random: in huge pages where the system allows it, because a
// look-up in a table of tens of megabytes otherwise waits for the page table more than for the table.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace xmc {

template <class T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}

  T* allocate(size_t count) {
    constexpr size_t kPage = size_t{1} << 21;
    const size_t bytes = count * sizeof(T);
    if (bytes < 2 * kPage) return static_cast<T*>(::operator new(bytes));
    void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < size_t{1} << 22)
      ::operator delete(memory);
    else
      std::free(memory);
  }
  // resize() leaves new elements as they are: whoever resizes writes them.
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    ::new (static_cast<void*>(p)) U(std::forward<Args>(args)...);
  }
  template <class U>
  bool operator==(const HugeAllocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const HugeAllocator<U>&) const {
    return false;
  }
};

template <class T>
using Buffer = std::vector<T, HugeAllocator<T>>;

}  // namespace xmc
