// For Cython, which cannot spell Span<const T> in an expression.
#pragma once
#include "span.h"

namespace xmc {

template <class T>
Span<const T> read_only(const T* data, int64_t size) {
  return {data, size};
}

}  // namespace xmc
