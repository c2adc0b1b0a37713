"""Which code path the kernels take on this machine."""

cdef extern from "simd.h" namespace "xmc":
    cdef enum class Isa:
        generic
        avx2
        avx512
    Isa c_isa "xmc::isa" ()

cdef extern from *:
    """
    #ifdef XMC_CHECKED
    static const bool xmc_checked = true;
    #else
    static const bool xmc_checked = false;
    #endif
    """
    const bint xmc_checked

#: True in a build with bounds checking (XMCSPARK_DEBUG=1).
checked = bool(xmc_checked)


def isa() -> str:
    """The instruction set in use: "generic", "avx2" or "avx512"."""
    return ("generic", "avx2", "avx512")[<int> c_isa()]
