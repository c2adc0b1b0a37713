"""Arrays as one string of bytes: rows that only travel between two Python functions cross Spark as a few large
binaries instead of one row of Java objects each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xmcspark.errors import InputError

_ALIGNED = 8  # bytes: arrays are read in place


def packed(*arrays: np.ndarray) -> bytes:
    """One-dimensional arrays of numbers, one after the other."""
    return b"".join(packed_parts(*arrays))


def packed_parts(*arrays: np.ndarray) -> Iterator[bytes | memoryview]:
    """What `packed` puts together, for who writes it to a file: the arrays themselves are not copied."""
    yield np.array([len(arrays)], "<i8").tobytes()
    for array in arrays:
        yield array.dtype.str.encode().ljust(8) + np.array([len(array)], "<i8").tobytes()
    for array in arrays:
        data = np.ascontiguousarray(array).view(np.uint8).data
        yield data
        yield bytes(-len(data) % _ALIGNED)


def unpacked(buffer: object) -> list[np.ndarray]:
    """The arrays of `packed`, read in place: they are as read-only as the buffer."""
    view = memoryview(buffer)  # type: ignore[arg-type]
    if len(view) < 8:
        raise InputError(f"{len(view)} bytes are no packed arrays")
    count = int(np.frombuffer(view, "<i8", 1)[0])
    at = 8 + 16 * count
    arrays = []
    for number in range(count):
        head = 8 + 16 * number
        dtype = np.dtype(bytes(view[head : head + 8]).decode().strip())
        length = int(np.frombuffer(view, "<i8", 1, head + 8)[0])
        arrays.append(np.frombuffer(view, dtype, length, at))
        at += length * dtype.itemsize + -(length * dtype.itemsize) % _ALIGNED
    return arrays
