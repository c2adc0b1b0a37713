// Where words, spaces and characters begin and end in a normalised text.
#pragma once
#include <cstdint>
#include <vector>

#include "text_unicode.h"

namespace xmc {

enum class WordRule : int {
  pairs = 0,    // scikit-learn's \b\w\w+\b: runs of two or more letters, digits, underscores
  unicode = 1,  // runs of any length with their combining marks and joiners; each emoji is a word
};

namespace split {

// Bytes of the space at p, 0 if there is none. Only four lead bytes start a space outside ASCII.
XMC_INLINE int space_width(const uint8_t* p) {
  const uint8_t c = p[0];
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  if (c != 0xC2 && c != 0xE1 && c != 0xE2 && c != 0xE3) return 0;
  return unicode::classes(unicode::decode(p)) & unicode::kSpace ? unicode::width(c) : 0;
}

// Calls chunk(begin, end) for each run of text[0:n) without spaces.
template <class Chunk>
XMC_INLINE void chunks(const uint8_t* text, int64_t n, Chunk&& chunk) {
  for (int64_t at = 0; at < n;) {
    if (const int step = space_width(text + at)) {
      at += step;
      continue;
    }
    const int64_t begin = at;
    do at += unicode::width(text[at]);
    while (at < n && !space_width(text + at));
    chunk(begin, at < n ? at : n);
  }
}

// End of the emoji that starts at `at` (a pictograph or half a flag): with its modifiers, and with what
// zero-width joiners glue to it.
inline int64_t emoji_end(const uint8_t* text, int64_t at, int64_t end) {
  using namespace unicode;
  const bool flag = classes(decode(text + at)) & kRegional;
  at += width(text[at]);
  if (flag) return at < end && (classes(decode(text + at)) & kRegional) ? at + width(text[at]) : at;
  while (at < end) {
    const uint8_t found = classes(decode(text + at));
    const int64_t after = at + width(text[at]);
    if (found & kModifier)
      at = after;
    else if ((found & kZwj) && after < end && (classes(decode(text + after)) & kPictograph))
      at = after + width(text[after]);
    else
      break;
  }
  return at;
}

// Calls word(begin, end) for each word of text[begin:end), in order.
template <class Word>
void words(WordRule rule, const uint8_t* text, int64_t begin, int64_t end, Word&& word) {
  using namespace unicode;
  const bool whole = rule == WordRule::unicode;
  const uint8_t inside = whole ? kWord | kJoining : kWord;
  for (int64_t at = begin; at < end;) {
    const int64_t start = at;
    int64_t letters = 0;  // characters that are not marks: a run of marks alone is no word
    while (at < end) {
      const uint8_t found = classes(decode(text + at));
      if (!(found & inside)) break;
      letters += (found & kWord) != 0;
      at += width(text[at]);
    }
    if (letters >= (whole ? 1 : 2)) word(start, at);
    if (at >= end) break;
    if (at > start) continue;
    if (whole && (classes(decode(text + at)) & (kPictograph | kRegional))) {
      const int64_t stop = emoji_end(text, at, end);
      word(at, stop);
      at = stop;
    } else {
      at += width(text[at]);
    }
  }
}

// Appends where each character of text[0:n) starts, and n.
inline void character_starts(const uint8_t* text, int64_t n, std::vector<int64_t>& starts) {
  starts.clear();
  for (int64_t at = 0; at < n; at += unicode::width(text[at])) starts.push_back(at);
  starts.push_back(n);
}

// Copies text[0:n) to `out`, each run of two or more spaces as one ' '; a single space of any kind stays
// what it is, as in scikit-learn.
inline void collapse_spaces(const uint8_t* text, int64_t n, std::vector<uint8_t>& out) {
  out.clear();
  for (int64_t at = 0; at < n;) {
    int step = space_width(text + at);
    if (!step) {
      out.push_back(text[at++]);
      continue;
    }
    const int64_t start = at, first = step;
    while (at < n && (step = space_width(text + at))) at += step;
    if (at - start > first)
      out.push_back(' ');
    else
      out.insert(out.end(), text + start, text + at);
  }
}

}  // namespace split
}  // namespace xmc
