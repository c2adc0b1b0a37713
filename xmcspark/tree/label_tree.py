"""The label tree: which labels sit under which node, in two kinds of array that the matchers, the search and
the files share. Any nested clustering of the labels is a tree; what is not one is refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.sparse.csr import as_csr


@dataclass(frozen=True)
class LabelTree:
    """A tree whose labels all have the same depth. Level 0 is the root; nodes of a level are numbered from
    left to right; the nodes of the last level are the leaf positions, one label each."""

    child_ptr: tuple[
        np.ndarray, ...
    ]  # int64: children of node j of level t are child_ptr[t][j] : child_ptr[t][j + 1]
    labels: np.ndarray  # int32: the label at each leaf position

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "child_ptr", tuple(_as_integers(p, np.int64, "child_ptr") for p in self.child_ptr)
        )
        object.__setattr__(self, "labels", _as_integers(self.labels, np.int32, "labels"))
        nodes = 1
        for level, ptr in enumerate(self.child_ptr):
            if len(ptr) != nodes + 1 or ptr[0] != 0:
                raise InputError(
                    f"level {level} of the tree has {nodes} nodes: child_ptr needs {nodes + 1} values from 0"
                )
            empty = np.flatnonzero(np.diff(ptr) < 1)
            if len(empty):
                raise InputError(
                    f"node {empty[0]} of level {level} has no children: leave empty nodes out of the tree"
                )
            nodes = int(ptr[-1])
        if not self.child_ptr or len(self.labels) != nodes:
            raise InputError(
                f"the tree has {nodes} leaf positions for {len(self.labels)} labels: they must be equal"
            )
        if self.labels.min() < 0:
            raise InputError(f"label {self.labels.min()} of the tree is negative")
        ids, count = np.unique(self.labels, return_counts=True)
        if len(ids) < len(self.labels):
            raise InputError(
                f"label {ids[count > 1][0]} is in the tree {count.max()} times: it must be there once"
            )

    @classmethod
    def opened(cls, child_ptr: Sequence[np.ndarray], labels: np.ndarray) -> LabelTree:
        """A saved tree, mapped into memory. Only how long its arrays are is checked, so that a tree of any size is
        open at once; whoever follows a pointer of it looks where it leads."""
        sizes = [1, *(len(ptr) - 1 for ptr in child_ptr[1:]), len(labels)]
        for level, ptr in enumerate(child_ptr):
            if len(ptr) != sizes[level] + 1 or ptr[0] != 0 or ptr[-1] != sizes[level + 1]:
                raise InputError(
                    f"level {level} of the tree does not fit the next one: copy or save it again"
                )
        tree = object.__new__(cls)
        object.__setattr__(tree, "child_ptr", tuple(child_ptr))
        object.__setattr__(tree, "labels", labels)
        return tree

    @classmethod
    def root_only(cls, n_labels: int) -> LabelTree:
        """One node with every label as its child: one-vs-all without a tree (DiSMEC)."""
        return cls((np.array([0, n_labels]),), np.arange(n_labels, dtype=np.int32))

    @classmethod
    def from_assignments(cls, assignments: Sequence[Any], labels: Any = None) -> LabelTree:
        """A tree from the cluster of each label, one array per level of clusters, coarsest first.

        Cluster numbers may be any integers; children keep their order. A finer cluster must lie inside one
        coarser one. `labels` names the labels (default 0, 1, ...).
        """
        levels = [_as_integers(a, np.int64, f"assignments[{t}]") for t, a in enumerate(assignments)]
        names = np.arange(len(levels[0])) if labels is None and levels else labels
        if names is None or any(len(level) != len(names) for level in levels):
            raise InputError("every level of the assignments needs one cluster per label")
        names = _as_integers(names, np.int32, "labels")
        order = np.lexsort((names, *reversed(levels)))
        above = np.zeros(len(names), np.int64)  # node, left to right, of each label in `order`
        child_ptr = []
        for t, level in enumerate(levels):
            node = _runs(above, level[order])
            if len(np.unique(level)) != node[-1] + 1:
                raise InputError(
                    f"assignments[{t}]: a cluster lies in several clusters of the level above it"
                )
            child_ptr.append(_pointers(above, node))
            above = node
        child_ptr.append(np.concatenate([[0], np.cumsum(np.bincount(above))]))
        return cls(tuple(child_ptr), names[order])

    @classmethod
    def from_cluster_matrices(cls, matrices: Sequence[Any]) -> LabelTree:
        """A tree from its C matrices (paper 1): K_t x K_{t-1}, with one non-zero per row, the parent."""
        if not matrices:
            raise InputError("no cluster matrices: a tree has at least one, labels x 1")
        ancestors: list[np.ndarray] = []  # of the nodes of the level at hand, one array per level of clusters
        nodes = 1
        for t, matrix in enumerate(matrices):
            parent = _parents(matrix, t, nodes)
            nodes = len(parent)
            if t > 0:
                ancestors = [*(a[parent] for a in ancestors), parent]
        return cls.from_assignments(ancestors, np.arange(nodes))

    def upper(self, levels: int) -> LabelTree:
        """Its first levels only, with the nodes of the level below them as labels; itself if it has no more."""
        if levels == self.depth:
            return self
        above = self.child_ptr[:levels]
        return LabelTree(above, np.arange(above[-1][-1], dtype=np.int32))

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    @property
    def depth(self) -> int:
        """Number of levels below the root, that of the labels included."""
        return len(self.child_ptr)

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Nodes per level, from the root (1) to the labels."""
        return (1, *(int(ptr[-1]) for ptr in self.child_ptr))

    @cached_property
    def position_of_label(self) -> np.ndarray:
        """int32: the leaf position of each label id; -1 for ids that are not in the tree."""
        if self.labels.min() < 0:  # of an opened tree nobody has looked at them yet
            raise InputError(f"label {self.labels.min()} of the tree is negative: copy or save it again")
        positions = np.full(int(self.labels.max()) + 1, -1, np.int32)
        positions[self.labels] = np.arange(self.n_labels, dtype=np.int32)
        return positions

    def table(self) -> pa.Table:
        """The nodes as a table to read: see `xmcspark.tree.readable.node_table`."""
        from xmcspark.tree.readable import node_table

        return node_table(self)

    def save(self, folder: str | Path) -> None:
        """Writes the tree into a folder, as .npy files and a JSON file."""
        from xmcspark.tree.files import save_tree

        save_tree(self, folder)

    @staticmethod
    def load(folder: str | Path) -> LabelTree:
        """The tree that `save` wrote."""
        from xmcspark.tree.files import load_tree

        return load_tree(folder)

    def leaf_range(self, level: int) -> np.ndarray:
        """int64[nodes + 1]: the labels under node j of `level` have positions [j] to [j + 1]."""
        bounds = np.arange(self.level_sizes[level] + 1)
        for ptr in self.child_ptr[level:]:
            bounds = ptr[bounds]
        return bounds

    def cluster_matrices(self, n_labels: int | None = None) -> list[sp.csr_matrix]:
        """C^(t), K_t x K_{t-1}, of each level; rows of the last one are label ids (up to `n_labels`)."""
        matrices = []
        for ptr in self.child_ptr[:-1]:
            parent = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
            matrices.append(_indicator(np.arange(len(parent)), parent, (len(parent), len(ptr) - 1)))
        ptr = self.child_ptr[-1]
        parent = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        rows = len(self.position_of_label) if n_labels is None else n_labels
        matrices.append(_indicator(self.labels, parent, (rows, len(ptr) - 1)))
        return matrices


def _parents(matrix: Any, t: int, above: int) -> np.ndarray:
    """Parent of each row of the t-th cluster matrix; its columns are the `above` nodes of the level above."""
    checked = as_csr(matrix, f"cluster matrix {t}", cols=above)
    if not checked.data.all():
        raise InputError(f"cluster matrix {t} stores zeros: remove them (eliminate_zeros)")
    wrong = np.flatnonzero(np.diff(checked.indptr) != 1)
    if len(wrong):
        raise InputError(f"cluster matrix {t}, row {wrong[0]}: a node or label must have exactly one parent")
    missing = np.flatnonzero(np.bincount(checked.indices, minlength=above) == 0)
    if len(missing):
        raise InputError(f"cluster matrix {t}, column {missing[0]}: the node has no children, leave it out")
    return checked.indices


def _indicator(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)


def _as_integers(values: Any, dtype: type, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError(
            f"{name} must be a non-empty 1-d array of integers, not {array.dtype} of shape {array.shape}"
        )
    if array.max() > np.iinfo(dtype).max:
        raise InputError(f"{name} has {array.max()}, which is too large for {np.dtype(dtype)}")
    return np.ascontiguousarray(array, dtype)


def _runs(above: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Number, from 0, of the run of equal (above, cluster) that each entry is in."""
    new = (above[1:] != above[:-1]) | (cluster[1:] != cluster[:-1])
    return np.concatenate([[0], np.cumsum(new)])


def _pointers(above: np.ndarray, node: np.ndarray) -> np.ndarray:
    first = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    return np.concatenate([[0], np.cumsum(np.bincount(above[first]))])
