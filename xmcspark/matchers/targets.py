"""What each tree node should answer for each training row: targets and costs, lifted from the labels.

A node's target is the largest target among its labels, never binarised (paper 1, section 7, extended to soft
labels); its relevance is the sum of its labels' relevance (paper 4, eq. 6). All matrices of a level have one
column per node of that level, numbered left to right."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.tree.label_tree import LabelTree


def check_targets(Y: Any, rows: int) -> Csr:
    """Y as a Csr of targets in (0, 1]; explicit zeros are dropped."""
    Y = as_csr(Y, "Y", rows=rows)
    if Y.nnz and (Y.data.min() < 0 or Y.data.max() > 1):
        raise InputError(
            f"Y has values between {Y.data.min():g} and {Y.data.max():g}: targets lie in 0..1 "
            "(1 = positive, less = soft label); pass click counts and the like as relevance instead"
        )
    return nonzero(Y)


def check_relevance(relevance: Any, Y: Csr) -> Csr:
    """Relevance with one positive value for each entry of Y, in Y's order."""
    R = as_csr(relevance, "relevance", rows=Y.shape[0], cols=Y.shape[1])
    R = nonzero(R)
    same = R.nnz == Y.nnz and np.array_equal(R.indptr, Y.indptr) and np.array_equal(R.indices, Y.indices)
    if not same or (R.nnz and R.data.min() <= 0):
        raise InputError("relevance must have a value above 0 for each positive pair of Y, and no other")
    return R


def select(matrix: Csr, keep: np.ndarray) -> Csr:
    """The entries of `matrix` where `keep` is true."""
    kept = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    return Csr(kept[matrix.indptr], matrix.indices[keep], matrix.data[keep], matrix.shape)


def nonzero(matrix: Csr) -> Csr:
    """Without explicit zeros."""
    return matrix if matrix.data.all() else select(matrix, matrix.data != 0)


def pattern(matrix: Csr) -> Csr:
    """1 at every entry."""
    return Csr(matrix.indptr, matrix.indices, np.ones(matrix.nnz, np.float32), matrix.shape)


def by_position(Y: Csr, tree: LabelTree, outside: str = "error") -> Csr:
    """Y with columns in the order of the tree's leaves. Entries of labels that are not in the tree are an `error`,
    or dropped (`outside="drop"`)."""
    places = np.full(max(Y.shape[1], len(tree.position_of_label)), -1, np.int32)
    places[: len(tree.position_of_label)] = tree.position_of_label
    unknown = places[Y.indices] < 0
    if unknown.any():
        if outside == "error":
            label = Y.indices[unknown.argmax()]
            raise InputError(
                f"label {label} has entries but is not in the tree: build the tree over all labels, or leave the "
                "columns of others out"
            )
        Y = select(Y, ~unknown)
    positions = places[Y.indices]
    moved = Csr(Y.indptr, positions, Y.data.copy(), (Y.shape[0], tree.n_labels)).to_scipy()
    moved.has_sorted_indices = False
    moved.sort_indices()
    return Csr(Y.indptr, moved.indices.astype(np.int32, copy=False), moved.data, moved.shape)


def rows_of(matrix: Csr) -> np.ndarray:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def lift(children: Csr, child_ptr: np.ndarray, how: np.ufunc) -> Csr:
    """From a level to its parents: entries of a row that share a parent are joined by `how`."""
    nodes = len(child_ptr) - 1
    parents = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(child_ptr))[children.indices]
    if not children.nnz:
        return Csr(children.indptr, parents, children.data, (children.shape[0], nodes))
    first = np.empty(children.nnz, bool)  # of its parent in its row
    first[0] = True
    np.not_equal(parents[1:], parents[:-1], out=first[1:])
    starts = children.indptr[:-1]
    first[starts[starts < children.nnz]] = True
    begins = np.flatnonzero(first)
    data = how.reduceat(children.data, begins).astype(np.float32)
    counts = np.concatenate([[0], np.cumsum(first, dtype=np.int64)])
    return Csr(counts[children.indptr], parents[begins], data, (children.shape[0], nodes))


def lifted(leaves: Csr, tree: LabelTree, how: np.ufunc) -> list[Csr]:
    """From values of the leaf positions, those of the children of each level of a tree, the root's first."""
    levels = [leaves]
    for child_ptr in reversed(tree.child_ptr[1:]):
        levels.append(lift(levels[-1], child_ptr, how))
    return levels[::-1]


def row_totals(R: Csr) -> np.ndarray:
    """float64: the sum of each row, added from left to right."""
    totals = np.zeros(R.shape[0])
    np.add.at(totals, rows_of(R), R.data.astype(np.float64))
    return totals


def l1_normalised(R: Csr, totals: np.ndarray) -> np.ndarray:
    """The values of R divided by the relevance of all labels of their row (paper 4, the definition after eq. 6)."""
    return np.asarray(R.data / np.maximum(totals[rows_of(R)], np.finfo(np.float64).tiny), np.float32)
