"""What goes into the packed environment. Decides that it is copied from the environment this runs in, which is the one
that was tested: the library with its kernels and the distributions it requires, each by its own list of files. pyspark
stays out: its Python part must be that of the cluster's own jars."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import xmcspark
from xmcspark._native import cpu
from xmcspark.errors import PlatformError

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SITE = PurePosixPath("lib", f"python{PYTHON}", "site-packages")
_OF_THE_CLUSTER = {"pyspark", "py4j"}
# Nothing imports these: tests, headers, Arrow's network server; and notes of pip that name this machine.
_LEFT_OUT = re.compile(
    r"(^|/)(tests|__pycache__|pyarrow/include|numpy/_core/include)/|pyarrow/.*flight|\.(pyc|pyx|pxd|pxi)$"
    r"|dist-info/(direct_url\.json|INSTALLER|REQUESTED|RECORD)$"
)
_STDLIB_LEFT_OUT = re.compile(
    r"^(test|idlelib|tkinter|turtledemo|lib2to3|ensurepip|site-packages|dist-packages|config-.*)/"
    r"|(^|/)(tests?|__pycache__)/|lib-dynload/_test"
)

Files = dict[PurePosixPath, Path]  # place in the archive: file here


def environment_files(extras: list[str]) -> tuple[Files, dict[str, str]]:
    """The files of the packed environment, and the version of each distribution in it."""
    if cpu.checked:
        raise PlatformError(
            "the kernels are those of a checked build, which is slow: build without XMCSPARK_DEBUG"
        )
    files: Files = {}
    versions = {}
    for found in _required("xmcspark", extras):
        name = found.metadata["Name"]
        versions[name] = found.version
        if found.files is None:
            raise PlatformError(
                f"{name} was not installed by pip, so nobody knows its files: make .venv anew"
            )
        for file in found.files:
            place = PurePosixPath(file)
            if not place.is_absolute() and ".." not in place.parts and not _LEFT_OUT.search(str(place)):
                files[SITE / place] = Path(str(file.locate()))
    library = Path(xmcspark.__file__).parent  # an editable installation lists none of its files
    for path in sorted(library.rglob("*")):
        place = PurePosixPath("xmcspark", path.relative_to(library).as_posix())
        if path.is_file() and not _LEFT_OUT.search(str(place)) and not _is_foreign(path.name):
            files[SITE / place] = path
    # The editable installation's own pointers to this clone.
    files = {place: path for place, path in files.items() if not place.name.startswith("__editable__")}
    return files, dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def interpreter_files() -> Files:
    """This interpreter with its standard library, for machines that have none of this version."""
    base = PurePosixPath("base")
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    files: Files = {base / "bin" / f"python{PYTHON}": executable}
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*")):
        place = path.relative_to(library).as_posix()
        if path.is_file() and not _STDLIB_LEFT_OUT.search(place):
            files[base / "lib" / f"python{PYTHON}" / place] = path
    shared = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(sysconfig.get_config_var("INSTSONAME"))
    if shared.suffix != ".a" and shared.is_file():
        files[base / "lib" / shared.name] = shared
    return files


def _required(name: str, extras: list[str], seen: set[str] | None = None) -> Iterator[Distribution]:
    """A distribution and all it requires that is not of the cluster."""
    seen = set() if seen is None else seen
    if (key := re.sub(r"[-_.]+", "-", name).lower()) in seen | _OF_THE_CLUSTER:
        return
    seen.add(key)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        wanted = f" --extras {','.join(extras)}" if extras else ""
        raise PlatformError(f"{name} is not installed here: ./spark-submit.sh setup{wanted}") from None
    yield found
    for requirement in found.requires or ():
        required, _, marker = requirement.partition(";")
        other = re.split(r"[^A-Za-z0-9._-]", required.strip(), maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([^'\"]+)", marker)
        if extra and not (name == "xmcspark" and extra[1] in extras):
            continue
        if marker and not extra and not _is_installed(other):
            continue  # for another platform or version: what applies here was installed
        yield from _required(other, extras, seen)


def _is_installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


def _is_foreign(name: str) -> bool:
    """A kernel that was built for another Python."""
    return name.endswith(".so") and not name.endswith(str(sysconfig.get_config_var("EXT_SUFFIX")))
