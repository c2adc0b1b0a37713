"""Shallow, wide trees without a size constraint, as Bonsai has them: clusters are as large as the labels make
them, and a cluster small enough is not divided again."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xmcspark._native.cluster import wide_clusters
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.params import TreeParams


def build_wide_tree(Z: Csr, params: TreeParams) -> LabelTree:
    """Clusters of more than `max_leaf` labels are divided, level by level, down to `max_depth`.

    A cluster that stays whole has one child on the levels below, so that all labels have the same depth.
    """
    matrix = Z.to_scipy()
    cluster = np.zeros(Z.shape[0], np.int64)
    levels: list[np.ndarray] = []
    while len(levels) < params.max_depth and np.bincount(cluster).max() > params.max_leaf:
        cluster = _divide_all(matrix, cluster, len(levels), params)
        levels.append(cluster)
    return LabelTree.from_assignments(levels, np.arange(Z.shape[0]))


def _divide_all(matrix: sp.csr_matrix, cluster: np.ndarray, level: int, params: TreeParams) -> np.ndarray:
    """Cluster of each label on the next level, numbered from 0 without gaps."""
    result = np.empty_like(cluster)
    by_cluster = np.argsort(cluster, kind="stable")
    ends = np.cumsum(np.bincount(cluster))
    used = 0
    for node, (start, end) in enumerate(zip(np.concatenate([[0], ends]), ends, strict=False)):
        labels = by_cluster[start:end]
        if len(labels) > params.max_leaf:
            part, count = _divide(matrix[labels], _node_seed(params.seed, level, node), params)
        else:
            part, count = np.zeros(len(labels), np.int64), 1
        result[labels] = used + part
        used += count
    return result


def _divide(matrix: sp.csr_matrix, seed: int, params: TreeParams) -> tuple[np.ndarray, int]:
    rows = as_csr(matrix, "Z")
    n = rows.shape[0]
    clusters = min(params.branching, n)
    found, count = wide_clusters(
        rows.indptr,
        rows.indices,
        rows.data,
        rows.shape[1],
        clusters,
        params.iterations,
        params.tolerance,
        seed,
        params.threads,
    )
    if count > 1:
        return found, count
    # Nothing tells these labels apart: cut them evenly, in label order.
    parts = min(clusters, -(-n // params.max_leaf))
    return np.arange(n) * parts // n, parts


def _node_seed(seed: int, level: int, node: int) -> int:
    return int(np.random.SeedSequence([seed, level, node]).generate_state(1, np.uint64)[0])
