"""Units of small trees, counted by scipy."""

from __future__ import annotations

import numpy as np

from xmcspark.matchers.targets import by_position, lift
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.units import NodeCounts, plan_units


def units_of(tree, X, Y, parts=6):
    return plan_units(tree, node_counts(tree, X, Y), parts)


def node_counts(tree, X, Y):
    targets, rows, nnz, pairs = by_position(as_csr(Y), tree), [], [], []
    counts = np.diff(X.indptr)
    levels = [targets]
    for ptr in reversed(tree.child_ptr[1:]):
        levels.insert(0, lift(levels[0], ptr, np.maximum))
    for t, ptr in enumerate(tree.child_ptr):
        pairs.append(np.add.reduceat(np.bincount(levels[t].indices, minlength=ptr[-1]), ptr[:-1]))
        if t == 0:
            rows.append([X.shape[0]])
            nnz.append([X.nnz])
            continue
        inside = levels[t - 1].to_scipy() > 0
        rows.append(np.asarray(inside.sum(axis=0)).ravel())
        nnz.append(np.asarray(inside.T @ counts).ravel())
    return NodeCounts(*(np.concatenate(part).astype(np.int64) for part in (rows, nnz, pairs)))
