"""A label tree as a folder of arrays: one per level and the labels, mapped into memory when opened."""

from __future__ import annotations

from pathlib import Path

from xmcspark.errors import InputError
from xmcspark.store.arrays import HEADER, load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree

_KIND = "label tree"
_VERSION = 2  # 1 had a header of its own


def save_tree(tree: LabelTree, folder: str | Path) -> None:
    """Writes the tree into `folder`, which is made if need be."""
    arrays = {_level_name(level): ptr for level, ptr in enumerate(tree.child_ptr)} | {"labels": tree.labels}
    header = {"depth": tree.depth, "level_sizes": tree.level_sizes}
    save_arrays(Path(folder), _KIND, _VERSION, header, arrays)


def load_tree(folder: str | Path) -> LabelTree:
    """The tree that `save_tree` wrote; checked like any other."""
    header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
    path, depth = Path(folder) / HEADER, header.get("depth")
    if not isinstance(depth, int) or depth < 1:
        raise InputError(f"{path}: depth {depth!r} must be a positive number")
    # A wrong depth asks for an array that is not there; one of the arrays holds no level.
    names = [_level_name(level) for level in range(min(depth, len(arrays)))]
    missing = [name for name in (*names, "labels") if name not in arrays]
    if missing:
        raise InputError(f"{path} does not list the array {missing[0]}: save the tree again")
    return LabelTree(tuple(arrays[name] for name in names), arrays["labels"])


def _level_name(level: int) -> str:
    return f"child_ptr_{level}"
