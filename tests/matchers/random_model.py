"""Models with random matchers: search and files need no training."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from small_problem import even_tree

from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.scoring import Scoring
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree


def random_model(
    tree: LabelTree | None = None, features: int = 40, seed: int = 0, scoring: Scoring | None = None
) -> TreeModel:
    rng = np.random.default_rng(seed)
    tree = tree or even_tree(57, (3, 11), seed)
    matchers = []
    for ptr in tree.child_ptr:
        children = int(ptr[-1])
        weights = sp.random(children, features, 0.3, format="csr", random_state=rng, dtype=np.float32)
        weights.data[:] = np.round(weights.data * 4 - 2)  # coarse: scores tie now and then
        matchers.append(Matchers(as_csr(weights), np.round(rng.normal(size=children)).astype(np.float32)))
    return TreeModel(tree, tuple(matchers), features, scoring or Scoring())


def random_rows(rows: int = 90, features: int = 40, seed: int = 1) -> sp.csr_matrix:
    """Rows of X; the first has no features."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, features, 0.2, format="lil", random_state=rng, dtype=np.float32)
    X[0] = 0
    X = X.tocsr()
    X.data[:] = np.ceil(X.data * 3) / 2
    X.eliminate_zeros()
    return X


def random_excluded(rows: int, labels: int, seed: int = 2) -> sp.csr_matrix:
    """Some labels for some rows; for the second row all, for the third none."""
    rng = np.random.default_rng(seed)
    found = (rng.random((rows, labels)) < rng.choice([0.0, 0.02, 0.5], (rows, 1))).astype(np.float32)
    found[1], found[2] = 1.0, 0.0
    return sp.csr_matrix(found)
