// Sixteen float lanes, and one body of code compiled for several instruction sets.
//
// The lanes are a compiler vector type: one AVX-512 register, two AVX2, four SSE2 or NEON. Every lane
// sees the same IEEE operations in the same order on each of them (-ffp-contract=off), so the answer is
// the same bit for bit; tests/native/test_isa.py holds this.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace xmc {

constexpr int kLanes = 16;
typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));

#define XMC_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define XMC_HAS_WIDE_ISA
#endif

enum class Isa { generic = 0, avx2 = 1, avx512 = 2 };

inline Isa detected_isa() {
#ifdef XMC_HAS_WIDE_ISA
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return Isa::avx2;
#endif
  return Isa::generic;
}

// XMCSPARK_ISA=generic|avx2|avx512 asks for a narrower path than the CPU has (tests do).
inline Isa isa() {
  static const Isa chosen = [] {
    const Isa best = detected_isa();
    const char* asked = std::getenv("XMCSPARK_ISA");
    if (!asked) return best;
    Isa wanted = !std::strcmp(asked, "avx512") ? Isa::avx512
                 : !std::strcmp(asked, "avx2") ? Isa::avx2
                                               : Isa::generic;
    return wanted < best ? wanted : best;
  }();
  return chosen;
}

}  // namespace xmc

// XMC_MULTIVERSION(name, (int n, float* x), (n, x)) defines `void name(int n, float* x)`, which runs
// `name_body(n, x)` compiled for the best instruction set of the CPU. Declare the body, and what is hot
// inside it, XMC_INLINE. For plain loops; code on vector types goes through every_isa.h.
#ifdef XMC_HAS_WIDE_ISA
#define XMC_MULTIVERSION(name, params, args)                                                  \
  __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))) inline void name##_avx2 params {      \
    name##_body args;                                                                         \
  }                                                                                           \
  __attribute__((target(                                                                      \
      "avx512f,avx512vl,avx512bw,avx512dq,avx2,bmi,bmi2,lzcnt,popcnt"))) inline void          \
      name##_avx512 params {                                                                  \
    name##_body args;                                                                         \
  }                                                                                           \
  inline void name##_generic params { name##_body args; }                                     \
  inline void name params {                                                                   \
    switch (xmc::isa()) {                                                                     \
      case xmc::Isa::avx512: return name##_avx512 args;                                       \
      case xmc::Isa::avx2: return name##_avx2 args;                                           \
      default: return name##_generic args;                                                    \
    }                                                                                         \
  }
#else
#define XMC_MULTIVERSION(name, params, args) \
  inline void name params { name##_body args; }
#endif
