"""How good the answers are, by one code for all systems: precision of the ranked labels, with excluded labels
removed first, and how tight the leaves of a label tree are."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

CUTS = (1, 3, 5)


def precision(top: np.ndarray, Y: sp.csr_matrix, exclude: sp.csr_matrix | None = None) -> dict[str, float]:
    """P@1, P@3 and P@5 of `top`, label ids by falling score (int[rows, k], -1 for none)."""
    if top.shape[0] != Y.shape[0]:
        raise ValueError(f"{top.shape[0]} rows of predictions for {Y.shape[0]} instances")
    if exclude is not None:
        top = without(top, exclude)
    hits = _stored(Y, top)
    return {f"P@{k}": float(hits[:, :k].sum() / (k * max(len(top), 1))) for k in CUTS}


def leaf_cosine(leaves: np.ndarray, Z: sp.csr_matrix) -> float:
    """Mean cosine between the labels' features Z (rows of length 1) and the centres of their leaves.

    The labels of a leaf sum to c, and its centre is c/|c|: their cosines add up to c.c/|c| = |c|.
    """
    assignment = sp.csr_matrix((np.ones(len(leaves), np.float32), (leaves, np.arange(len(leaves)))))
    sums = assignment @ Z
    return float(np.sqrt(sums.multiply(sums).sum(axis=1)).sum() / max(len(leaves), 1))


def label_features(X: sp.csr_matrix, Y: sp.csr_matrix) -> sp.csr_matrix:
    """PIFA with scipy (paper 1, eq. 1): the rows of Yᵀ·X, of length 1. All trees are built on it."""
    Z = sp.csr_matrix(Y.T.tocsr() @ X)
    Z.sort_indices()
    lengths = np.sqrt(np.asarray(Z.multiply(Z).sum(axis=1)).ravel())
    scale = 1 / np.where(lengths > 0, lengths, 1)
    Z.data *= np.repeat(scale.astype(np.float32), np.diff(Z.indptr))
    return Z


def _stored(matrix: sp.csr_matrix, top: np.ndarray) -> np.ndarray:
    """True where (row, top[row, j]) is a stored entry of `matrix`."""
    width = matrix.shape[1]
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    keys = row * width + matrix.indices
    wanted = np.arange(len(top), dtype=np.int64)[:, None] * width + top
    found: np.ndarray = np.isin(wanted, keys) & (top >= 0)
    return found


def without(top: np.ndarray, exclude: sp.csr_matrix) -> np.ndarray:
    """`top` with excluded labels taken out and the rest moved up."""
    gone = _stored(exclude, top) | (top < 0)
    order = np.argsort(gone, axis=1, kind="stable")
    kept = np.where(np.take_along_axis(gone, order, 1), -1, np.take_along_axis(top, order, 1))
    return kept
