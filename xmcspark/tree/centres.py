"""Centres of the clusters of a tree: the sum of their labels' features, exact in any order, so that the centre of a
node is the same whether its sub-tree was built alone or within the whole tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xmcspark.sparse.csr import Csr
from xmcspark.sparse.spgemm import exact_grid, row_sums
from xmcspark.tree.label_tree import LabelTree


def centre_grid(n_labels: int) -> float:
    """The grid for the centres of a tree of so many labels, whose rows have length 1."""
    return exact_grid(1.0, 1.0, n_labels)


def tree_centres(
    Z: Csr, tree: LabelTree, levels: int, *, grid: float, max_features: int, threads: int = 1
) -> Iterator[tuple[int, Csr]]:
    """(level, centres of its clusters) for the first `levels` levels, the lowest first: rows of length 1, with their
    `max_features` largest entries. Sums of a level are those of the level below it, added up.

    Labels of the tree are numbers of rows of Z. A cluster of labels without features has an empty row."""
    rows, below, cols = (Z.indptr, Z.indices, Z.data), None, Z.shape[1]
    for level in range(levels - 1, -1, -1):
        selector = _labels_of(tree, level, Z.shape[0]) if below is None else _children_of(tree, level, below)
        rows, _ = row_sums(
            selector, rows, cols, threads=threads, grid=grid if below is None else None, as_double=True
        )
        below = len(rows[0]) - 1
        found, _ = row_sums(
            _themselves(below), rows, cols, threads=threads, normalise=True, max_features=max_features
        )
        yield level, Csr(*found, (below, cols))


def _labels_of(tree: LabelTree, level: int, labels: int) -> Csr:
    """Which rows of Z make each cluster of a level."""
    bounds = tree.leaf_range(level)
    node = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return _ones(bounds, tree.labels[np.lexsort((tree.labels, node))], labels)


def _children_of(tree: LabelTree, level: int, children: int) -> Csr:
    return _ones(tree.child_ptr[level], np.arange(children), children)


def _themselves(rows: int) -> Csr:
    return _ones(np.arange(rows + 1), np.arange(rows), rows)


def _ones(indptr: np.ndarray, indices: np.ndarray, cols: int) -> Csr:
    ones = np.ones(len(indices), np.float32)
    return Csr(
        np.ascontiguousarray(indptr, np.int64), indices.astype(np.int32), ones, (len(indptr) - 1, cols)
    )
