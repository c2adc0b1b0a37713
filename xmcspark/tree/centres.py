"""Centres of the clusters of a tree: the sum of their labels' features, exact in any order, so that the centre of a
node is the same whether its sub-tree was built alone or within the whole tree."""

from __future__ import annotations

import numpy as np

from xmcspark.sparse.csr import Csr
from xmcspark.sparse.spgemm import exact_grid, multiply
from xmcspark.tree.label_tree import LabelTree


def centre_grid(n_labels: int) -> float:
    """The grid for the centres of a tree of so many labels, whose rows have length 1."""
    return exact_grid(1.0, 1.0, n_labels)


def level_centres(
    Z: Csr, tree: LabelTree, level: int, *, grid: float, max_features: int, threads: int = 1
) -> Csr:
    """The centres of the clusters of one level: rows of length 1, with their `max_features` largest entries.

    Labels of the tree are numbers of rows of Z. A cluster of labels without features has an empty row."""
    bounds = tree.leaf_range(level)
    node = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    members = tree.labels[np.lexsort((tree.labels, node))]
    selector = Csr(bounds, members, np.ones(len(members), np.float32), (len(bounds) - 1, Z.shape[0]))
    return multiply(selector, Z, threads=threads, grid=grid, normalise=True, max_features=max_features)[0]
