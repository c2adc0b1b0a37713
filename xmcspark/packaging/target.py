"""The machines that a packed environment runs on: processor, Python, and the C and C++ libraries that its compiled
files ask for. Native code is not built for other processors here: that is refused, with the way to do it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xmcspark.errors import PlatformError
from xmcspark.packaging.environment import PYTHON

MACHINES = ("x86_64", "aarch64")
_SYMBOLS = re.compile(
    rb"\0(GLIBC|GLIBCXX|CXXABI)_(\d+(?:\.\d+)+)(?=\0)"
)  # as the dynamic linker's tables name them


def check_machine(wanted: str) -> None:
    """Refuses to build for a processor that is not this machine's."""
    here = platform.machine()
    if platform.system() != "Linux":
        raise PlatformError(
            f"packages are for Linux and this is {platform.system()}: run the same command in a Linux container"
        )
    if wanted != here:
        raise PlatformError(
            f"--platform {wanted}: compiled kernels are built on the kind of machine that they run on, and this is "
            f"{here}; run the same command on a {wanted} machine (for aarch64 a Graviton instance or `docker run "
            "--platform linux/arm64`, see docs/emr.md)"
        )


def requirements_of(files: Iterable[Path]) -> dict[str, Any]:
    """What a machine must have to load these compiled files."""
    newest: dict[str, tuple[int, ...]] = {}
    for path in files:
        for kind, text in set(_SYMBOLS.findall(path.read_bytes())):
            version = tuple(int(part) for part in text.split(b"."))
            newest[kind.decode()] = max(newest.get(kind.decode(), (0,)), version)
    libraries = {kind: ".".join(map(str, version)) for kind, version in sorted(newest.items())}
    return {"system": "Linux", "machine": platform.machine(), "python": PYTHON, "at_least": libraries}


def check_glibc(needs: dict[str, Any], limit: tuple[int, ...]) -> None:
    """Refuses what the target's C library is too old for."""
    newest = needs["at_least"].get("GLIBC", "0")
    if version_numbers(newest) > limit:
        raise PlatformError(
            f"--glibc {'.'.join(map(str, limit))}: files of the environment need glibc {newest}; run the same "
            "command on a machine as old as the target (for EMR in a container of amazonlinux:2023, see docs/emr.md)"
        )


def version_numbers(version: str) -> tuple[int, ...]:
    """2.34 as (2, 34). ValueError if it is no version."""
    return tuple(int(part) for part in version.split("."))
