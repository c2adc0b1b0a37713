"""How tree models are laid out in a folder: the tree, the header both saved forms share, and their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.scoring import Scoring
from xmcspark.store.arrays import ArrayInParts, load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree

VERSION = 2  # of both saved forms
PLAIN_VERSION = 1  # without dense columns


@dataclass(frozen=True)
class ModelHeader:
    """What is known of a saved model before its matchers are looked at."""

    depth: int
    n_features: int
    width: int  # dense columns, the last of the features
    scoring: Scoring


def save_model(
    folder: Path,
    kind: str,
    tree: LabelTree,
    n_features: int,
    scoring: Scoring,
    arrays: Mapping[str, np.ndarray | ArrayInParts],
    *,
    width: int = 0,
    threads: int = 1,
) -> None:
    tree_arrays = {f"tree.{t}": ptr for t, ptr in enumerate(tree.child_ptr)} | {"tree.labels": tree.labels}
    header = {"n_features": n_features, "depth": tree.depth, "scoring": asdict(scoring)}
    if width:
        header["width"] = width
    version = VERSION if width else PLAIN_VERSION
    save_arrays(folder, kind, version, header, {**tree_arrays, **arrays}, threads)


def open_model(folder: Path, kind: str) -> tuple[ModelHeader, dict[str, np.ndarray]]:
    """(what the header says, arrays)"""
    header, arrays = load_arrays(folder, kind, VERSION, earlier=[PLAIN_VERSION])
    try:
        depth, n_features, width = (
            int(header["depth"]),
            int(header["n_features"]),
            int(header.get("width", 0)),
        )
        if not 0 <= width <= n_features:
            raise ValueError(f"width is {width}, of {n_features} features")
        return ModelHeader(depth, n_features, width, Scoring(**header["scoring"])), arrays
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: its header is not that of a {kind}: {error}") from error


def load_model(
    folder: Path, kind: str, make_tree: Callable[..., LabelTree] = LabelTree
) -> tuple[LabelTree, ModelHeader, dict[str, np.ndarray]]:
    """(tree, header, arrays). `make_tree` decides how much of the tree is checked."""
    header, arrays = open_model(folder, kind)
    tree = make_tree(
        tuple(take_array(folder, arrays, f"tree.{t}") for t in range(header.depth)),
        take_array(folder, arrays, "tree.labels"),
    )
    return tree, header, arrays


def take_array(folder: str | Path, arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise InputError(f"{folder}: array {name} is not listed: save the model again")
    return arrays[name]
