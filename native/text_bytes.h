// Documents as bytes: which need Python's Unicode functions, taking them out and putting them back.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "text_count.h"
#include "text_unicode.h"

namespace xmc {

// The documents that are not ASCII, and of those the ones that are not valid UTF-8.
struct TextScan {
  std::vector<int64_t> other, invalid;

  void run(const Documents& documents) {
    if (documents.size() == 0) return;
    const int64_t from = documents.offsets[0], to = documents.offsets[documents.size()];
    if (unicode::is_ascii(documents.data.slice(from, to).ptr, to - from)) return;
    for (int64_t i = 0; i < documents.size(); ++i) {
      const auto text = documents.data.slice(documents.offsets[i], documents.offsets[i + 1]);
      if (unicode::is_ascii(text.ptr, text.size())) continue;
      other.push_back(i);
      if (!unicode::is_valid(text.ptr, text.size())) invalid.push_back(i);
    }
  }
};

// First document whose offsets decrease or leave the data; -1 if all are well.
inline int64_t first_bad_offset(const Documents& documents) {
  for (int64_t i = 0; i < documents.size(); ++i)
    if (documents.offsets[i] < 0 || documents.offsets[i + 1] < documents.offsets[i] ||
        documents.offsets[i + 1] > documents.data.size())
      return i;
  return -1;
}

// The chosen documents one after the other, a zero byte between two.
inline void gather(const Documents& documents, Span<const int64_t> chosen, std::vector<uint8_t>& out) {
  for (int64_t i = 0; i < chosen.size(); ++i) {
    const auto text = documents.data.slice(documents.offsets[chosen[i]], documents.offsets[chosen[i] + 1]);
    if (i) out.push_back(0);
    out.insert(out.end(), text.begin(), text.end());
  }
}

// The documents with those numbered `chosen` (increasing) replaced by `texts`.
inline void splice(const Documents& documents, Span<const int64_t> chosen, const Documents& texts,
                   std::vector<uint8_t>& out, Span<int64_t> offsets) {
  offsets[0] = 0;
  for (int64_t i = 0, next = 0; i < documents.size(); ++i) {
    const bool replaced = next < chosen.size() && chosen[next] == i;
    const Documents& from = replaced ? texts : documents;
    const int64_t at = replaced ? next++ : i;
    const auto text = from.data.slice(from.offsets[at], from.offsets[at + 1]);
    out.insert(out.end(), text.begin(), text.end());
    offsets[i + 1] = (int64_t)out.size();
  }
}

}  // namespace xmc
