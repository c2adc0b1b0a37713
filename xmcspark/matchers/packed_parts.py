"""Levels of units, packed, one after the other in files: what tasks leave for the model to be put together from."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from xmcspark.errors import StoreError
from xmcspark.matchers.search import PackedLevel

# As PackedLevel has them. Pointers come without their first 0; where nothing is dense, the last has no bytes.
NAMES = ("slot_ptr", "entry_ptr", "slots", "entries", "bias", "dense")
_COPIED_AT_ONCE = 1 << 24
_TAKEN = ".taken"
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of fallocate(2)
_Unit = tuple[int, int]  # member, unit


@dataclass(frozen=True)
class LevelPart:
    """Where the arrays of a level of a unit lie: one after the other, in the order of NAMES."""

    level: int
    file: str
    first: int  # byte
    sizes: tuple[int, ...]  # in bytes

    def size(self, name: str) -> int:
        return self.sizes[NAMES.index(name)]

    def start(self, name: str) -> int:
        return self.first + sum(self.sizes[: NAMES.index(name)])

    def read(self, name: str) -> bytes:
        with open(self.file, "rb") as stream:
            data = os.pread(stream.fileno(), self.size(name), self.start(name))
        self._check(len(data) == self.size(name))
        return data

    def move_to(self, name: str, stream: IO[bytes]) -> None:
        """Appends the bytes of an array to a file, without taking them into memory. What was copied is given back on
        the way: it need not be written to the disk any more, and its memory is there for the copy."""
        stream.flush()
        at, end = self.start(name), self.start(name) + self.size(name)
        with open(self.file, "r+b") as source:
            while at < end:
                copied = os.sendfile(stream.fileno(), source.fileno(), at, min(end - at, _COPIED_AT_ONCE))
                self._check(copied > 0)
                _give_back(source, at, copied)
                at += copied

    def to_plain(self) -> list[Any]:
        """For JSON; `from_plain` gives it back."""
        return list(astuple(self))

    @staticmethod
    def from_plain(plain: list[Any]) -> LevelPart:
        level, file, first, sizes = plain
        sizes = [*sizes, *[0] * (len(NAMES) - len(sizes))]  # an earlier release had no dense columns
        return LevelPart(int(level), str(file), int(first), tuple(int(size) for size in sizes))

    def _check(self, whole: bool) -> None:
        if not whole:
            raise StoreError(f"{self.file} was cut off while the model was put together: run train again")


def taken(parts: Mapping[_Unit, Sequence[LevelPart]]) -> dict[_Unit, list[LevelPart]]:
    """The parts, under a name that nobody else will look for them: they are about to be moved, and if that is cut off,
    what is left of them is of no use."""
    for file in {part.file for found in parts.values() for part in found}:
        os.replace(file, file + _TAKEN)
    return {unit: [replace(part, file=part.file + _TAKEN) for part in found] for unit, found in parts.items()}


def _give_back(file: IO[bytes], first: int, size: int) -> None:
    """Makes a hole in a file, where the system can (Linux): its size stays."""
    if fallocate := getattr(ctypes.CDLL(None), "fallocate64", None):
        fallocate(file.fileno(), _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(first), ctypes.c_int64(size))


class PartsFile:
    """A file that parts are appended to."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._stream = str(path), open(path, "wb")  # noqa: SIM115  closed by `close`

    def add(self, level: int, packed: PackedLevel) -> LevelPart:
        first = self._stream.tell()
        return LevelPart(
            level, self._path, first, tuple(self._stream.write(data) for data in part_bytes(packed))
        )

    def close(self) -> None:
        self._stream.close()


def part_bytes(packed: PackedLevel) -> list[memoryview]:
    """The arrays of a packed level as they are kept, in the order of NAMES."""
    dense = np.empty(0, np.float32) if packed.dense is None else packed.dense
    arrays = (packed.slot_ptr[1:], packed.entry_ptr[1:], packed.slots, packed.entries, packed.bias, dense)
    return [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays]
