"""The model folder put together from units that were packed one by one, in the bytes that `Searcher.save` would write
for the whole: on each level the nodes of a unit are neighbours, so levels are the units' parts in order. What arrives
is appended to files, so that no more than one part is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import IO

import numpy as np

from xmcspark.errors import StoreError
from xmcspark.matchers.files import save_model
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import PackedLevel
from xmcspark.matchers.train_unit import unit_tree
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import Unit, node_starts

# As PackedLevel has them: dtype, and columns (0: one-dimensional). Pointers come without their first 0.
_ARRAYS = {
    "slot_ptr": ("<i8", 0),
    "entry_ptr": ("<i8", 0),
    "slots": ("<i4", 2),
    "entries": ("<u4", 2),
    "bias": ("<f4", 0),
}
NAMES = tuple(_ARRAYS)
_POINTERS = ("slot_ptr", "entry_ptr")


def in_leaf_order(tree: LabelTree, units: list[Unit]) -> list[Unit]:
    """Units from left to right: on every level, their nodes come in this order."""
    starts = node_starts(tree)
    first_leaf = {}
    for level in {unit.level for unit in units}:
        bounds = tree.leaf_range(level)
        for unit in units:
            if unit.level == level:
                first_leaf[unit.unit] = int(bounds[unit.node - int(starts[level])])
    return sorted(units, key=lambda unit: (first_leaf[unit.unit], unit.level))


def packed_unit(
    tree: LabelTree,
    unit: Unit,
    nodes: np.ndarray,
    children: np.ndarray,
    bias: np.ndarray,
    W: Csr,
    levels: int | None = None,
) -> Iterator[tuple[int, PackedLevel]]:
    """(level, its nodes packed) of a unit, from its matchers as the table has them, in any order: node and child of
    each, bias and weights. `levels`: only so many levels of the tree, from the root, are asked for."""
    part, place = unit_tree(tree, unit)
    starts = node_starts(tree)
    for t, ptr in enumerate(part.child_ptr):
        level = unit.level + t
        if levels is not None and level >= levels:
            return
        mine = np.flatnonzero((nodes >= starts[level]) & (nodes < starts[level + 1]))
        if level == tree.depth - 1:
            numbers = tree.position_of_label[children[mine]]
        else:
            numbers = children[mine] - starts[level + 1]
        order = np.argsort(numbers, kind="stable")
        expected = np.arange(place.first[t + 1], place.first[t + 1] + int(ptr[-1]))
        if not np.array_equal(numbers[order], expected):
            raise StoreError(
                f"table matchers has {len(mine)} rows of unit {unit.unit} on level {level} where the tree has "
                f"{len(expected)}: it does not belong to this tree; run train again"
            )
        rows = mine[order]
        yield level, PackedLevel.of(take_rows(W, rows), np.ascontiguousarray(bias[rows]), ptr)


class ModelFiles:
    """A model that grows: `append` parts from left to right, then `finish`."""

    def __init__(self, scratch: Path, tree: LabelTree) -> None:
        self._scratch, self._tree = scratch, tree
        scratch.mkdir(parents=True, exist_ok=True)
        self._open = ExitStack()
        self._streams: dict[tuple[int, str], IO[bytes]] = {}
        for level, name in product(range(tree.depth), NAMES):
            stream = open(self._file(level, name), "wb")  # noqa: SIM115  closed by `finish`
            self._streams[level, name] = self._open.enter_context(stream)
        self._last = {(level, name): 0 for level in range(tree.depth) for name in _POINTERS}
        for level, name in self._last:
            self._streams[level, name].write(np.zeros(1, np.int64).tobytes())

    def append(self, level: int, name: str, data: bytes, last: bool) -> None:
        """The next bytes of an array of a level; `last` of a unit's part. Pointers count from the unit's first."""
        if name in _POINTERS:
            moved = np.frombuffer(data, np.int64) + self._last[level, name]
            self._streams[level, name].write(moved.tobytes())
            if last and len(moved):
                self._last[level, name] = int(moved[-1])
        else:
            self._streams[level, name].write(data)

    def finish(self, folder: Path, n_features: int, scoring: Scoring) -> None:
        """Writes the folder and removes what it was made from."""
        self._open.close()
        arrays = {f"{level}.{name}": self._array(level, name) for level, name in self._streams}
        save_model(folder, "packed tree model", self._tree, n_features, scoring, arrays)
        del arrays
        for level, name in self._streams:
            self._file(level, name).unlink()

    def _array(self, level: int, name: str) -> np.ndarray:
        dtype, columns = _ARRAYS[name]
        path = self._file(level, name)
        if not path.stat().st_size:
            return np.zeros((0, columns) if columns else 0, dtype)
        flat = np.memmap(path, dtype, mode="r")
        return flat.reshape(-1, columns) if columns else flat

    def _file(self, level: int, name: str) -> Path:
        return self._scratch / f"{level}.{name}"
