"""Build of the Cython kernels: the list of kernels and the compiler settings are declared here, once.

``XMCSPARK_DEBUG=1`` builds the same kernels with bounds checking everywhere (Cython's and
``native/span.h``'s).
"""

import os
import platform
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = ["cpu", "csr"]

NATIVE = Path("native")
DEBUG = os.environ.get("XMCSPARK_DEBUG", "0") not in ("", "0")

# One baseline for every wheel: wider instruction sets are chosen at run time (native/simd.h).
# No -march, no fast-math, no contraction: the answer must not depend on the CPU.
COMPILE = ["-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wno-psabi"]
COMPILE += ["-O1", "-g"] if DEBUG else ["-O3", "-g0"]
if platform.machine() == "x86_64":
    COMPILE += ["-mno-fma"]
MACROS: list[tuple[str, str | None]] = [("_GLIBCXX_ASSERTIONS", None), ("XMC_CHECKED", None)] if DEBUG else []

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    "freethreading_compatible": False,
}


def kernel(name: str) -> Extension:
    return Extension(
        f"xmcspark._native.{name}",
        sources=[str(NATIVE / f"{name}.pyx")],
        include_dirs=[str(NATIVE)],
        depends=[str(header) for header in sorted(NATIVE.glob("*.h"))],
        define_macros=MACROS,
        extra_compile_args=COMPILE,
        extra_link_args=["-pthread"],
        language="c++",
    )


setup(
    ext_modules=cythonize(
        [kernel(name) for name in KERNELS],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        nthreads=os.cpu_count() or 1,
    )
)
