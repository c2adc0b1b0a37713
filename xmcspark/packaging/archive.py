"""Writes the packed environment as a tar.gz. Decides that the same files give the same bytes: names in order, no times,
no owners; that modules come compiled, because every executor would compile them again; and that there are no links,
which some unpackers refuse."""

from __future__ import annotations

import gzip
import importlib.util
import io
import marshal
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

Content = Path | bytes
_UNCHECKED = 0b01  # a compiled module that is never compared with its source (PEP 552): it needs no times
_LEVEL = 4  # of 9: half the time of 6 for 4% more bytes


def write_archive(path: Path, files: Mapping[PurePosixPath, Content]) -> int:
    """The archive of `files` (place: a file here, or its content); the bytes it unpacks to."""
    unpacked = 0
    with (
        open(path, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for place, content in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            unpacked += _add(archive, place, data, is_program=place.parent.name == "bin")
            if place.suffix == ".py" and (compiled := _compiled(place, data)):
                cached = PurePosixPath(importlib.util.cache_from_source(str(place)))
                unpacked += _add(archive, cached, compiled, is_program=False)
    return unpacked


def _add(archive: tarfile.TarFile, place: PurePosixPath, data: bytes, is_program: bool) -> int:
    entry = tarfile.TarInfo(str(place))
    entry.size, entry.mode = len(data), 0o755 if is_program or ".so" in place.name else 0o644
    archive.addfile(entry, io.BytesIO(data))
    return len(data)


def _compiled(place: PurePosixPath, source: bytes) -> bytes | None:
    """The module as Python keeps it; None for templates and the like that are no modules."""
    try:
        code = compile(source, str(place), "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED) + importlib.util.source_hash(source)
    return head + marshal.dumps(code)
