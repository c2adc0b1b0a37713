"""How tree models are laid out in a folder: the tree, the header both saved forms share, and their arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.scoring import Scoring
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree

VERSION = 1  # of both saved forms


def save_model(
    folder: Path, kind: str, tree: LabelTree, n_features: int, scoring: Scoring, arrays: dict[str, np.ndarray]
) -> None:
    tree_arrays = {f"tree.{t}": ptr for t, ptr in enumerate(tree.child_ptr)} | {"tree.labels": tree.labels}
    header = {"n_features": n_features, "depth": tree.depth, "scoring": asdict(scoring)}
    save_arrays(folder, kind, VERSION, header, tree_arrays | arrays)


def load_model(
    folder: Path, kind: str, make_tree: Callable[..., LabelTree] = LabelTree
) -> tuple[LabelTree, int, Scoring, dict[str, np.ndarray]]:
    """(tree, features, scoring, arrays). `make_tree` decides how much of the tree is checked."""
    header, arrays = load_arrays(folder, kind, VERSION)
    try:
        depth, n_features, scoring = (
            int(header["depth"]),
            int(header["n_features"]),
            Scoring(**header["scoring"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: its header is not that of a {kind}: {error}") from error
    tree = make_tree(
        tuple(take_array(folder, arrays, f"tree.{t}") for t in range(depth)),
        take_array(folder, arrays, "tree.labels"),
    )
    return tree, n_features, scoring, arrays


def take_array(folder: str | Path, arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise InputError(f"{folder}: array {name} is not listed: save the model again")
    return arrays[name]
