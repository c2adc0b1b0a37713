"""Label trees by hierarchical spherical k-means over label features (paper 1, section 6). The tree depends on
the label vectors, their ids, the parameters and the seed, and on nothing else: not on threads, CPU, kind of
centre, or whether its sub-trees are built here or each on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from xmcspark._native.cluster import balanced_order
from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.params import TreeParams
from xmcspark.tree.sampled import SampledCut, in_sample, sampled_cut
from xmcspark.tree.shape import Shape, checked_sizes, level_sizes
from xmcspark.tree.splits import Cuts, Splits, Walk, cuts_by_split, cuts_of_round, splits_between
from xmcspark.tree.wide import build_wide_tree


@dataclass(frozen=True)
class LevelTime:
    """What the clusters of one level took."""

    level: int
    clusters: int
    centres: str  # "dense" or "spa"
    cpu_seconds: float
    passes: float  # over the labels of a node, on average
    centre_length: float  # values in a centre, on average


def build_tree(Z: Any, params: TreeParams | None = None, **changes: Any) -> LabelTree:
    """A tree over the labels, the rows of Z (sparse or dense; need not be normalised).

    `changes` are fields of `TreeParams`: `build_tree(Z, branching=8, seed=1)`. Labels without features go
    where room is left.
    """
    return build_tree_timed(Z, params, **changes)[0]


def build_tree_timed(
    Z: Any, params: TreeParams | None = None, **changes: Any
) -> tuple[LabelTree, list[LevelTime]]:
    """`build_tree`, and the time of each level (balanced trees from all labels only)."""
    matrix, params = _checked(Z), replace(params or TreeParams(), **changes)
    if not params.balanced:
        return build_wide_tree(matrix, params), []
    cut = cut_for_sample(matrix.shape[0], params)
    if cut is not None:
        return _build_sampled(matrix, cut, params), []
    sizes = cluster_counts(matrix.shape[0], params)
    return _grow(matrix, np.arange(matrix.shape[0]), Shape.whole(sizes), len(sizes), sizes, params)


def build_meta_tree(Z: Any, level: int, params: TreeParams | None = None, **changes: Any) -> LabelTree:
    """The balanced tree down to `level` only: its leaf clusters are the nodes of that level."""
    matrix, params = _checked(Z), replace(params or TreeParams(), **changes)
    sizes = cluster_counts(matrix.shape[0], params)
    _check_level(level, sizes)
    return _grow(matrix, np.arange(matrix.shape[0]), Shape.whole(sizes), level, sizes, params)[0]


def build_sub_tree(
    Z: Any,
    labels: Any,
    sizes: Sequence[int],
    level: int,
    node: int,
    params: TreeParams | None = None,
    **changes: Any,
) -> LabelTree:
    """The sub-tree under node `node` of `level`, exactly as it is in the whole tree.

    `sizes` are the clusters per level of the whole tree; `labels` (increasing) are the ids of the rows of Z,
    which are the node's labels only.
    """
    params = replace(params or TreeParams(), **changes)
    ids = np.asarray(labels)
    matrix = as_csr(Z, "Z", rows=len(ids), dense="expand")
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids) or np.any(np.diff(ids) <= 0) or ids[0] < 0:
        raise InputError("labels must be a 1-d array of increasing label ids, at least one")
    whole = tuple(sizes)
    _check_level(level, whole)
    if not 0 <= node < (1, *whole)[level]:
        raise InputError(f"level {level} has nodes 0 to {(1, *whole)[level] - 1}, not {node}")
    shape = Shape.whole(whole).under(level, node)
    leaves = int(shape.child_ptr[-1][-1]) if shape.child_ptr else 1
    if leaves > len(ids):
        raise InputError(f"node {node} of level {level} has {leaves} leaf clusters for {len(ids)} labels")
    return _grow(matrix, ids, shape, len(shape.child_ptr), whole, params)[0]


def join_trees(meta: LabelTree, sub_trees: Sequence[LabelTree]) -> LabelTree:
    """The whole tree from a meta tree and the sub-trees of its leaf clusters, left to right."""
    if len(sub_trees) != meta.level_sizes[-2]:
        raise InputError(
            f"{len(sub_trees)} sub-trees for {meta.level_sizes[-2]} leaf clusters of the meta tree"
        )
    if len({tree.depth for tree in sub_trees}) != 1:
        raise InputError("sub-trees of different depth cannot be joined: build them with the same shape")
    for j, (a, b) in enumerate(pairwise(meta.child_ptr[-1])):
        if not np.array_equal(np.sort(sub_trees[j].labels), np.sort(meta.labels[a:b])):
            raise InputError(f"sub-tree {j} does not hold the labels of leaf cluster {j} of the meta tree")
    return tree_over(meta.child_ptr[:-1], sub_trees)


def tree_over(child_ptr: Sequence[np.ndarray], sub_trees: Sequence[LabelTree]) -> LabelTree:
    """Upper levels and the sub-trees below them, left to right, which are all of one depth."""
    levels = list(child_ptr)
    for level in range(sub_trees[0].depth):
        children = np.concatenate([np.diff(tree.child_ptr[level]) for tree in sub_trees])
        levels.append(np.concatenate([[0], np.cumsum(children)]))
    return LabelTree(tuple(levels), np.concatenate([tree.labels for tree in sub_trees]))


def sampled_meta_tree(
    Z: Csr, labels: np.ndarray, cut: SampledCut, params: TreeParams
) -> tuple[LabelTree, Splits]:
    """(the upper levels over the sample, whose leaf clusters are the nodes of the cut; the splits that lead all labels
    there). `labels` are the numbers of the rows of Z."""
    shape = Shape.whole(cut.sizes)
    meta, _ = _grow(Z, labels, shape, cut.level, cut.sizes, params, cut.share)
    node = np.empty(len(labels), np.int64)
    leaf = np.repeat(np.arange(cut.sub_trees), np.diff(meta.child_ptr[-1]))
    node[np.searchsorted(labels, meta.labels)] = leaf
    return meta, splits_between(Z, node, shape, cut.level)


def _build_sampled(Z: Csr, cut: SampledCut, params: TreeParams) -> LabelTree:
    """Upper levels from a sample of the labels; then all labels go down the splits, whose cuts follow round by round
    from the labels that reach them, and each sub-tree is built from its own."""
    every = np.arange(Z.shape[0])
    chosen = np.flatnonzero(in_sample(every, cut, params.seed))
    _, splits = sampled_meta_tree(take_rows(Z, chosen), chosen, cut, params)
    walk, cuts = Walk(splits, Z, every, params.seed), Cuts.none()
    for number in range(splits.rounds):
        found = cuts_by_split(splits, *walk.counts())
        cuts = cuts.and_then(cuts_of_round(splits, number, found))
        walk.follow(cuts)
    sub_trees = []
    for node in range(cut.sub_trees):
        own = np.flatnonzero(walk.at == ~node)
        sub_trees.append(build_sub_tree(take_rows(Z, own), own, cut.sizes, cut.level, node, params))
    return tree_over(Shape.whole(cut.sizes).child_ptr[: cut.level], sub_trees)


def cluster_counts(n_labels: int, params: TreeParams) -> tuple[int, ...]:
    """Clusters per level below the root of the balanced tree of so many labels."""
    if params.shape is None:
        return level_sizes(n_labels, params.branching, params.max_leaf)
    return checked_sizes(params.shape, n_labels)


def cut_for_sample(n_labels: int, params: TreeParams) -> SampledCut | None:
    """How upper levels are built from a sample; None if the tree of so many labels is built from all of them."""
    return sampled_cut(n_labels, cluster_counts(n_labels, params), params) if params.balanced else None


def _checked(Z: Any) -> Csr:
    matrix = as_csr(Z, "Z", dense="expand")
    if matrix.shape[0] == 0:
        raise InputError("Z has no rows: a tree needs at least one label")
    return matrix


def _check_level(level: int, sizes: Sequence[int]) -> None:
    if not 0 <= level <= len(sizes):
        raise InputError(f"level {level} is not one of the tree's levels of clusters, 0 to {len(sizes)}")


def _grow(
    Z: Csr,
    ids: np.ndarray,
    shape: Shape,
    stop: int,
    sizes: Sequence[int],
    params: TreeParams,
    share: float = 1.0,
) -> tuple[LabelTree, list[LevelTime]]:
    """The part of the tree that `shape` describes, down to its level `stop`, over the labels `ids`, which are this
    share of all that belong there."""
    clusters = (1, *sizes)[shape.root_level :]
    keep = [
        min(1.0, params.sample_share(shape.root_level + t, len(sizes)) / share) for t in range(len(clusters))
    ]
    nnz = int(
        Z.nnz * clusters[0] / share
    )  # eq. 3 is about the whole matrix; this is one of clusters[0] parts
    dense = [params.dense_centres(count, nnz, Z.shape[1]) for count in clusters]
    order, node_size, stats = balanced_order(
        Z.indptr,
        Z.indices,
        Z.data,
        Z.shape[1],
        np.ascontiguousarray(ids, np.int64),
        list(shape.child_ptr),
        shape.first,
        shape.root_level,
        stop,
        np.array(keep, np.float64),
        np.array(dense, np.uint8),
        params.iterations,
        params.tolerance,
        params.seed,
        params.threads,
    )
    leaves = np.concatenate([[0], np.cumsum(node_size)])
    times = [
        LevelTime(shape.root_level + t, clusters[t], "dense" if dense[t] else "spa", *_averages(stats[t]))
        for t in range(1, stop + 1)
    ]
    return LabelTree((*shape.child_ptr[:stop], leaves), ids[order]), times


def _averages(stats: tuple[float, int, int, int]) -> tuple[float, float, float]:
    seconds, splits, passes, length = stats
    return seconds, passes / max(1, splits), length / max(1, splits)
