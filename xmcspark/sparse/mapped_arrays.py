"""Arrays in a file as they are in memory: written by one task, mapped by others that see the same disk. For scratch
only: no header says what they are."""

from __future__ import annotations

import mmap
import os
import uuid
from pathlib import Path

import numpy as np

from xmcspark.sparse.packing import packed_parts, unpacked


def write_arrays(path: Path, *arrays: np.ndarray) -> None:
    """Whole or not at all: who writes the same again may win."""
    partial = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with open(partial, "wb") as stream:
        stream.writelines(packed_parts(*arrays))
    os.replace(partial, path)


def mapped_arrays(path: Path) -> list[np.ndarray]:
    """The arrays of `write_arrays`, read when they are used."""
    with open(path, "rb") as opened:
        return unpacked(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ))
