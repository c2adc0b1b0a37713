"""Keys and texts of labels by id, as flat arrays: mapped into memory, read only where a prediction points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.errors import InputError
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND = "label names"
_VERSION = 2  # 1 could not be searched by key
_PARTS = ("key", "text")


class LabelNames:
    """Keys and texts of labels. Ids without a label have empty ones."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["key.offsets"]) - 1

    def key(self, label: int) -> str:
        return self._part("key", label)

    def text(self, label: int) -> str:
        return self._part("text", label)

    def _part(self, part: str, label: int) -> str:
        offsets = self._arrays[f"{part}.offsets"]
        if not 0 <= label < len(offsets) - 1:
            raise InputError(f"label {label} is not one of 0 to {len(offsets) - 2}")
        start, stop = offsets[label], offsets[label + 1]
        return self._arrays[f"{part}.bytes"][start:stop].tobytes().decode("utf-8")

    def column(self, part: str) -> pa.Array:
        """All keys (part "key") or texts ("text") by id, as an Arrow array over the same memory."""
        buffers = [pa.py_buffer(self._arrays[f"{part}.{of}"]) for of in ("offsets", "bytes")]
        return pa.Array.from_buffers(pa.large_string(), len(self), [None, *buffers])

    def label(self, key: str) -> int:
        """The id of a key; InputError if no label has it. A binary search: nothing is read but what it compares."""
        wanted, order = key.encode(), self._arrays["key.order"]
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self._part("key", int(order[middle])).encode() < wanted:
                low = middle + 1
            else:
                high = middle
        if not key or low == len(order) or self.key(int(order[low])) != key:
            raise InputError(f"no label has the key {key!r}")
        return int(order[low])

    def with_more(self, keys: Sequence[str], texts: Sequence[str]) -> LabelNames:
        """These and further labels, with the ids after them; InputError if one has no text, or a key that is taken. A
        copy of everything."""
        own = self.column("key")
        pairs = list(zip(keys, texts, strict=True))
        if other := [
            word for pair in pairs for word in pair if word is not None and not isinstance(word, str)
        ]:
            raise InputError(
                f"new labels: {other[0]!r} is of type {type(other[0]).__name__}: keys and texts are strings"
            )
        known = set(own.filter(pc.is_in(own, pa.array(keys, pa.large_string()))).to_pylist())
        problems = [f"{key!r} is the key of a label already" for key in keys if key in known]
        problems += [f"{key!r} is given twice" for key, count in Counter(keys).items() if count > 1]
        problems += [f"{key!r} has no text" for key, text in pairs if not (text or "").strip()]
        if problems or not keys or "" in keys:
            what = "; ".join(problems[:5]) or "give at least one, each with a key"
            raise InputError(f"new labels: {what}")
        more = {"key": keys, "text": texts}
        columns = (
            pa.concat_arrays([self.column(part), pa.array(more[part], pa.large_string())]) for part in _PARTS
        )
        return LabelNames.of(np.arange(len(self) + len(keys)), *columns)

    def save(self, folder: Path) -> None:
        save_arrays(folder, _KIND, _VERSION, {"labels": len(self)}, self._arrays)

    @staticmethod
    def load(folder: Path) -> LabelNames:
        _, arrays = load_arrays(folder, _KIND, _VERSION)
        for part in _PARTS:
            offsets, values = arrays.get(f"{part}.offsets"), arrays.get(f"{part}.bytes")
            if offsets is None or values is None or not len(offsets) or offsets[-1] != len(values):
                raise InputError(f"{folder}: the arrays of {part} do not fit together; copy the bundle again")
        if len(arrays.get("key.order", ())) != len(arrays["key.offsets"]) - 1:
            raise InputError(f"{folder}: the order of keys does not fit them; copy the bundle again")
        return LabelNames(arrays)

    @staticmethod
    def of(ids: np.ndarray, keys: pa.Array, texts: pa.Array) -> LabelNames:
        """From columns of the `labels` table in any order."""
        size = int(ids.max(initial=-1)) + 1
        row = np.full(size, -1, np.int64)
        row[ids] = np.arange(len(ids))
        at = pa.array(row, mask=row < 0)
        arrays: dict[str, np.ndarray] = {}
        for part, column in zip(_PARTS, (keys, texts), strict=True):
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            placed = column.cast(pa.large_string()).take(at).fill_null("")
            _, offsets, values = placed.buffers()
            arrays[f"{part}.offsets"] = np.frombuffer(offsets, np.int64, size + 1).copy()
            used = int(arrays[f"{part}.offsets"][-1])
            arrays[f"{part}.bytes"] = (
                np.frombuffer(values, np.uint8, used).copy() if used else np.empty(0, np.uint8)
            )
            if part == "key":
                arrays["key.order"] = pc.array_sort_indices(placed).to_numpy().astype(np.int32)
        return LabelNames(arrays)
