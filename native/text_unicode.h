// UTF-8: validation, decoding of what has been validated, and the classes of characters.
#pragma once
#include <cstdint>
#include <cstring>

#include "simd.h"
#include "unicode_classes.h"

namespace xmc::unicode {

constexpr int64_t kPadding = 16;  // readable bytes that follow every text handed to the tokeniser

XMC_INLINE uint8_t classes(uint32_t code_point) {
  if (code_point > 0x10FFFF) return 0;
  return kClasses[kBlockOf[code_point >> 8] * 256 + (code_point & 255)];
}

// Length in bytes of the character that starts with this byte.
XMC_INLINE int width(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// The character at p, which must be valid UTF-8 or be followed by padding.
XMC_INLINE uint32_t decode(const uint8_t* p) {
  switch (width(p[0])) {
    case 1: return p[0];
    case 2: return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    case 3: return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    default: return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  }
}

inline bool is_ascii(const uint8_t* p, int64_t n) {
  uint64_t seen = 0, word;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::memcpy(&word, p + i, 8);
    seen |= word;
  }
  for (; i < n; ++i) seen |= p[i];
  return (seen & 0x8080808080808080ull) == 0;
}

// Well-formed as Unicode's table 3-7 says: no overlong forms, no surrogates, nothing past U+10FFFF.
inline bool is_valid(const uint8_t* p, int64_t n) {
  for (int64_t i = 0; i < n;) {
    const uint8_t lead = p[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) return false;
    const int bytes = width(lead);
    if (i + bytes > n) return false;
    uint8_t low = 0x80, high = 0xBF;  // of the second byte
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (p[i + 1] < low || p[i + 1] > high) return false;
    for (int k = 2; k < bytes; ++k)
      if ((p[i + k] & 0xC0) != 0x80) return false;
    i += bytes;
  }
  return true;
}

// Copies n bytes with A-Z made lower case where asked, and zero padding after them.
inline void copy_padded(const uint8_t* from, int64_t n, bool lower, uint8_t* to) {
  if (lower)
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] + ((uint8_t)(from[i] - 'A') < 26 ? 32 : 0);
  else if (n)
    std::memcpy(to, from, n);
  std::memset(to + n, 0, kPadding);
}

}  // namespace xmc::unicode
