"""Build of the Cython kernels: which they are and how they are compiled is declared here, once.

``XMCSPARK_DEBUG=1`` builds the same kernels with bounds checking everywhere (Cython's and
``native/span.h``'s).
"""

import os
import platform
import runpy
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("native")
GENERATED = Path("build/generated")
KERNELS = sorted(source.stem for source in NATIVE.glob("*.pyx"))
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


def included(source: Path) -> set[Path]:
    """The files of native/ that a source names, and those they name: a change of these rebuilds it."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        text = waiting.pop().read_text()
        new = {file for file in NATIVE.glob("*.h") if f'{file.name}"' in text}
        new |= {file for file in NATIVE.glob("*.pxd") if f"from {file.stem} cimport" in text}
        new |= {file for file in NATIVE.glob("*.py") if f'{file.stem}.h"' in text}  # it writes that header
        waiting += new - found
        found |= new
    return found


def kernel(name: str) -> Extension:
    source = NATIVE / f"{name}.pyx"
    return Extension(
        f"xmcspark._native.{name}",
        sources=[str(source)],
        include_dirs=[str(NATIVE), str(GENERATED)],
        depends=[str(file) for file in sorted(included(source))],
        define_macros=MACROS,
        extra_compile_args=COMPILE,
        extra_link_args=["-pthread"],
        language="c++",
    )


class BuildKernels(build_ext):
    """Translates and compiles on all cores, and only when kernels are built: asking for metadata is free."""

    def finalize_options(self) -> None:
        from Cython.Build import cythonize

        cores = os.cpu_count() or 1
        runpy.run_path(str(NATIVE / "unicode_classes.py"))["write_header"](GENERATED / "unicode_classes.h")
        self.distribution.ext_modules[:] = cythonize(
            self.distribution.ext_modules,
            include_path=[str(NATIVE)],
            compiler_directives=DIRECTIVES,
            build_dir="build/cython-debug" if DEBUG else "build/cython",
            nthreads=cores,
        )
        super().finalize_options()
        self.parallel = self.parallel or cores
        if self.inplace or self.editable_mode:  # one cache for both, so that only what changed is compiled
            cache = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}{'-checked' if DEBUG else ''}"
            self.build_lib, self.build_temp = f"build/lib.{cache}", f"build/temp.{cache}"


setup(ext_modules=[kernel(name) for name in KERNELS], cmdclass={"build_ext": BuildKernels})
