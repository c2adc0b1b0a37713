// Compiles the header named by XMC_EACH_ISA once for each instruction set, in namespaces xmc::generic, xmc::avx2
// and xmc::avx512. No include guard: define XMC_EACH_ISA, include this, choose with xmc::isa() at run time.

#define XMC_ISA 0
namespace xmc::generic {
#include XMC_EACH_ISA
}
#undef XMC_ISA

#ifdef XMC_HAS_WIDE_ISA
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#define XMC_ISA 1
namespace xmc::avx2 {
#include XMC_EACH_ISA
}
#undef XMC_ISA
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,bmi,bmi2,lzcnt,popcnt")
#define XMC_ISA 2
namespace xmc::avx512 {
#include XMC_EACH_ISA
}
#undef XMC_ISA
#pragma GCC pop_options
#endif

#undef XMC_EACH_ISA
