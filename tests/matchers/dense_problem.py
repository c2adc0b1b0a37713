"""Small random problems whose rows have a dense block, for the matcher tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from small_problem import random_problem

from xmcspark.sparse.csr import Csr, with_dense


def dense_problem(
    rows: int = 120,
    features: int = 40,
    width: int = 21,
    labels: int = 21,
    seed: int = 0,
    soft: bool = False,
) -> tuple[Csr, sp.csr_matrix]:
    """(X, Y): as `random_problem`, with a block of values of either sign that also tell something of the labels."""
    X, Y = random_problem(rows, features, labels, seed, soft)
    rng = np.random.default_rng(seed + 1)
    block = rng.normal(size=(rows, width)) + Y @ rng.normal(size=(labels, width))
    block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-9)
    return with_dense(X, block.astype(np.float32)), Y
