"""The folder that fine-tuning works on, and copies of it where the run lies on another filesystem. A copy is whole
before the one before it goes, so that a kill at any time leaves one to go on from. Processes on executors, which have
no JVM, make the same copies by Arrow's own filesystems."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs as arrow

from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.stage import Context

_WHOLE = re.compile(r"copy-(\d{6})\.whole")
_HADOOPS_S3 = re.compile(r"^s3[an]://")


@contextmanager
def work_folder(context: Context) -> Iterator[Path]:
    """A folder on this disk that a killed run finds again: in the run's scratch, or on another filesystem as a copy of
    what was begun there. It goes when its work is done."""
    uri = work_uri(context)
    local = context.fs.local_path(uri)
    work = Path(local or tempfile.mkdtemp(prefix="xmcspark-encode-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        if local is None:
            fetch_copy(context, work)
        yield work
    finally:
        if local is None:
            shutil.rmtree(work, ignore_errors=True)
    context.fs.delete(uri)


def work_uri(context: Context) -> str:
    """Where the folder lies, or its copies do."""
    return context.scratch(f"fine-tuning-{context.key[:16]}")


def copy_place(uri: str, number: int) -> str:
    return joined(uri, f"copy-{number:06d}")


def newest_copy(fs: Filesystem, uri: str) -> int:
    """Of those that are whole; -1 if there is none."""
    return max((_number(entry.name) for entry in fs.list(uri)), default=-1)


def keep_copy(context: Context, work: Path) -> None:
    """Keeps what was begun where a driver that was killed does not lose it."""
    uri, fs = work_uri(context), context.fs
    if fs.local_path(uri) is not None:
        return
    place = copy_place(uri, newest_copy(fs, uri) + 1)
    fs.upload(work, place)
    fs.write_text(f"{place}.whole", "")
    for entry in fs.list(uri):
        if not entry.name.startswith(place.rpartition("/")[2]):
            fs.delete(entry.uri)


def fetch_copy(context: Context, work: Path) -> None:
    """Makes a folder the newest copy, if there is one."""
    uri = work_uri(context)
    if (number := newest_copy(context.fs, uri)) >= 0:
        shutil.rmtree(work)  # only a folder that does not exist becomes the copy: into others it would be put
        context.fs.download(copy_place(uri, number), work)


class ArrowCopies:
    """The copies at `uri`, from a process without a JVM that has the one with `number`."""

    def __init__(self, uri: str, number: int) -> None:
        self._fs, self._path = _arrow_place(uri)
        self._number = number

    def fetch(self, folder: Path) -> None:
        place = copy_place(self._path, self._number)
        arrow.copy_files(place, str(folder), source_filesystem=self._fs)

    def keep(self, folder: Path) -> None:
        """Makes the next copy; the one before goes."""
        before, place = (copy_place(self._path, self._number + more) for more in (0, 1))
        arrow.copy_files(str(folder), place, destination_filesystem=self._fs)
        with self._fs.open_output_stream(f"{place}.whole"):
            pass
        self._number += 1
        self._fs.delete_file(f"{before}.whole")
        self._fs.delete_dir(before)


def _arrow_place(uri: str) -> tuple[Any, str]:
    """Arrow knows S3 by one name, Hadoop by three."""
    filesystem, path = arrow.FileSystem.from_uri(_HADOOPS_S3.sub("s3://", uri, count=1))
    return filesystem, path


def _number(name: str) -> int:
    found = _WHOLE.fullmatch(name)
    return int(found[1]) if found else -1
