"""The model folder put together from units that were packed one by one, in the bytes that `Searcher.save` would write
for the whole: on each level the nodes of a unit are neighbours, so levels are the units' parts in order. Parts lie in
files (packed_parts.py) and are moved from file to file, so that none of them is in memory, and none there twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from xmcspark.errors import StoreError
from xmcspark.matchers.files import save_model
from xmcspark.matchers.packed_parts import NAMES, LevelPart
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import PackedLevel
from xmcspark.matchers.train_unit import TrainedLevel, unit_tree
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import ArrayInParts
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import Unit, node_starts

# As PackedLevel has them: dtype, and columns (0: one-dimensional). Pointers come without their first 0.
_ARRAYS = {
    "slot_ptr": ("<i8", 0),
    "entry_ptr": ("<i8", 0),
    "slots": ("<i4", 2),
    "entries": ("<u4", 2),
    "bias": ("<f4", 0),
    "dense": ("<f4", 0),
}
_POINTERS = ("slot_ptr", "entry_ptr")
assert tuple(_ARRAYS) == NAMES


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


def packed_level(trained: TrainedLevel) -> PackedLevel:
    """The nodes of a level of a unit as it was just trained, packed."""
    nodes = trained.nodes
    ptr = np.concatenate([[0], np.flatnonzero(np.diff(nodes)) + 1, [len(nodes)]]).astype(np.int64)
    return PackedLevel.of(trained.matchers.weights, np.ascontiguousarray(trained.matchers.bias), ptr)


def save_packed(
    folder: Path,
    tree: LabelTree,
    parts: Sequence[LevelPart],
    n_features: int,
    scoring: Scoring,
    *,
    width: int = 0,
    threads: int = 1,
) -> None:
    """Writes the model of a tree from the parts of all its units, in the order of `in_leaf_order`, which are used up.
    `width`: how many of the features are dense columns."""
    arrays = {}
    for level in range(tree.depth):
        of_level = [part for part in parts if part.level == level]
        for name in NAMES if width else NAMES[:-1]:
            arrays[f"{level}.{name}"] = _array(of_level, name)
    save_model(folder, "packed tree model", tree, n_features, scoring, arrays, width=width, threads=threads)


def _array(parts: Sequence[LevelPart], name: str) -> np.ndarray | ArrayInParts:
    kind, columns = _ARRAYS[name]
    dtype: np.dtype[Any] = np.dtype(kind)
    if name in _POINTERS:
        return _pointers(parts, name)
    count = sum(part.size(name) for part in parts) // dtype.itemsize
    shape = (count // columns, columns) if columns else (count,)
    return ArrayInParts(dtype, shape, partial(_move, parts, name))


def _pointers(parts: Sequence[LevelPart], name: str) -> np.ndarray:
    """Those of a part count from its own first."""
    found = [np.zeros(1, np.int64)]
    for part in parts:
        found.append(np.frombuffer(part.read(name), np.int64) + found[-1][-1])
    return np.concatenate(found)


def _move(parts: Sequence[LevelPart], name: str, stream: IO[bytes]) -> None:
    for part in parts:
        part.move_to(name, stream)
