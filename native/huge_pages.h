// Large arrays that are visited at random: with 4 KiB pages the address translation alone misses the cache.
#pragma once
#include <cstddef>
#include <cstdint>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace xmc {

constexpr size_t kHugePage = 2u << 20;

// Advice for memory that has not been touched yet; without effect where it cannot be followed.
inline void advise_huge_pages(void* memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const uintptr_t first = ((uintptr_t)memory + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = ((uintptr_t)memory + bytes) / kHugePage * kHugePage;
  if (first < last) madvise((void*)first, last - first, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

}  // namespace xmc
