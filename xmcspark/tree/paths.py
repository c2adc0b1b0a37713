"""The arrays of a label tree as tasks need them: mapped into memory, with nothing to check or compute first. A tree
of millions of labels is opened in no time, however many tasks open it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree

_KIND, _VERSION = "label paths", 1


@dataclass(frozen=True)
class LabelPaths:
    """A label tree's arrays. Nodes are its clusters, numbered from the root, level by level."""

    child_ptr: tuple[np.ndarray, ...]  # as in LabelTree
    labels: np.ndarray  # as in LabelTree
    position_of_label: np.ndarray  # int32: by label id; -1 for ids that are not in the tree

    @classmethod
    def of(cls, tree: LabelTree) -> LabelPaths:
        return cls(tree.child_ptr, tree.labels, tree.position_of_label)

    @classmethod
    def load(cls, folder: str | Path) -> LabelPaths:
        header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        levels = tuple(arrays[f"child_ptr_{level}"] for level in range(header["depth"]))
        return cls(levels, arrays["labels"], arrays["position_of_label"])

    def save(self, folder: str | Path) -> None:
        arrays = {f"child_ptr_{level}": ptr for level, ptr in enumerate(self.child_ptr)}
        arrays |= {"labels": self.labels, "position_of_label": self.position_of_label}
        save_arrays(Path(folder), _KIND, _VERSION, {"depth": self.depth}, arrays)

    @property
    def depth(self) -> int:
        return len(self.child_ptr)

    @cached_property
    def starts(self) -> np.ndarray:
        """int64[depth + 1]: number of the first node of each level of clusters; the last is the number of nodes."""
        return np.concatenate([[0], np.cumsum([len(ptr) - 1 for ptr in self.child_ptr])]).astype(np.int64)

    @property
    def nodes(self) -> int:
        return int(self.starts[-1])

    def positions(self, labels: np.ndarray) -> np.ndarray:
        """int64: leaf position of each label; -1 for labels that are not in the tree."""
        places = np.full(len(labels), -1, np.int64)
        known = (labels >= 0) & (labels < len(self.position_of_label))
        places[known] = self.position_of_label[labels[known]]
        return places

    def parents(self, level: int, children: np.ndarray) -> np.ndarray:
        """int64: node of `level` above each child, both numbered within their level."""
        return np.searchsorted(self.child_ptr[level], children, side="right") - 1
