"""Small random problems and trees for the matcher tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xmcspark.tree.label_tree import LabelTree


def random_problem(rows: int = 120, features: int = 40, labels: int = 21, seed: int = 0, soft: bool = False):
    """(X, Y) with some signal: rows of a label share a feature."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, features, 0.15, format="csr", random_state=rng, dtype=np.float32)
    Y = sp.random(rows, labels, 0.08, format="csr", random_state=rng, dtype=np.float32)
    Y.data[:] = 1.0
    X = (X + Y @ sp.random(labels, features, 0.1, format="csr", random_state=rng, dtype=np.float32)).tocsr()
    if soft:
        Y.data[:] = rng.choice([0.2, 0.5, 1.0], Y.nnz)
    return X.astype(np.float32), Y.astype(np.float32)


def even_tree(labels: int, sizes: tuple[int, ...] = (), seed: int = 0) -> LabelTree:
    """A tree with the given number of nodes at each level, labels in random order."""
    order = np.random.default_rng(seed).permutation(labels).astype(np.int32)
    bounds = [np.linspace(0, labels, size + 1).astype(np.int64) for size in sizes] + [np.arange(labels + 1)]
    above, pointers = np.array([0, labels]), []
    for bound in bounds:
        pointers.append(np.searchsorted(bound, above).astype(np.int64))
        above = bound
    return LabelTree(tuple(pointers), order)
