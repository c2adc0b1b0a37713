"""A label tree as files: one .npy per array (no pickle) and a JSON file that names them, written last."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.tree.label_tree import LabelTree

_FORMAT = "xmcspark label tree 1"


def save_tree(tree: LabelTree, folder: str | Path) -> None:
    """Writes the tree into `folder`, which is made if need be."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for level, ptr in enumerate(tree.child_ptr):
        np.save(target / f"child_ptr_{level}.npy", ptr, allow_pickle=False)
    np.save(target / "labels.npy", tree.labels, allow_pickle=False)
    description = {"format": _FORMAT, "depth": tree.depth, "level_sizes": tree.level_sizes}
    (target / "tree.json").write_text(json.dumps(description, indent=1) + "\n")


def load_tree(folder: str | Path) -> LabelTree:
    """The tree that `save_tree` wrote; checked like any other."""
    source = Path(folder)
    try:
        description = json.loads((source / "tree.json").read_text())
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{source / 'tree.json'} cannot be read as the description of a label tree: {problem}"
        ) from problem
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise InputError(
            f"{source / 'tree.json'} does not describe a label tree of this version ({_FORMAT!r})"
        )
    depth = description.get("depth")
    if not isinstance(depth, int) or depth < 1:
        raise InputError(f"{source / 'tree.json'}: depth {depth!r} must be a positive number")
    child_ptr = tuple(_load(source / f"child_ptr_{level}.npy") for level in range(depth))
    return LabelTree(child_ptr, _load(source / "labels.npy"))


def _load(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise InputError(f"{path} of a label tree is missing or damaged: {problem}") from problem
    return array
