"""A level's targets and costs are those of its labels, joined as the paper says."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.neural.resolutions import resolutions
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree

TREE = LabelTree(
    (np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 3, 5, 6])), np.array([4, 0, 2, 1, 5, 3])
)
PARENT_OF_LABEL = {4: 0, 0: 0, 2: 1, 1: 2, 5: 2, 3: 3}  # on the level above the labels


def targets() -> np.ndarray:
    Y = np.zeros((3, 6), np.float32)
    Y[0, [4, 0, 1]] = 1.0, 0.5, 0.25
    Y[1, [2, 3]] = 1.0, 1.0
    return Y  # the last row has no label


def test_targets_are_the_largest_below_a_node():
    found = resolutions(TREE, as_csr(targets()), as_csr(targets() > 0), cost_sensitive=False)
    clusters = np.zeros((3, 4), np.float32)
    for row, label in zip(*np.nonzero(targets()), strict=True):
        parent = PARENT_OF_LABEL[int(label)]
        clusters[row, parent] = max(clusters[row, parent], targets()[row, label])
    np.testing.assert_array_equal(found[1].Y.to_scipy().toarray(), clusters)
    np.testing.assert_array_equal(found[0].Y.to_scipy().toarray(), clusters.reshape(3, 2, 2).max(axis=2))
    np.testing.assert_array_equal(found[2].Y.to_scipy().toarray(), targets()[:, TREE.labels])
    assert all((level.cost == 1).all() for level in found)


def test_costs_are_relevance_summed_up_the_tree_and_divided_by_the_row_total():
    R = (targets() > 0) * np.arange(1, 7, dtype=np.float32)
    found = resolutions(TREE, as_csr(targets()), as_csr(R), cost_sensitive=True)
    total = R.sum(axis=1)
    for level in found:
        costs = sp.csr_matrix((level.cost, level.Y.indices, level.Y.indptr), shape=level.Y.shape).toarray()
        np.testing.assert_allclose(costs.sum(axis=1), np.where(total > 0, 1, 0), rtol=1e-6)
    first = (R[0, [4, 0]].sum()) / total[0]
    assert found[1].cost[0] == pytest.approx(first)


def test_parents_are_the_nodes_that_rows_belong_to():
    found = resolutions(TREE, as_csr(targets()), as_csr(targets() > 0), cost_sensitive=False)
    assert found[0].parents.shape == (3, 1)
    assert found[0].parents.nnz == 3  # the root, for every row
    np.testing.assert_array_equal(found[1].parents.indices, found[0].Y.indices)
    np.testing.assert_array_equal(found[2].parents.indptr, found[1].Y.indptr)


def test_labels_outside_of_the_tree_do_not_count():
    Y = np.hstack([targets(), np.ones((3, 2), np.float32)])
    found = resolutions(TREE, as_csr(Y), as_csr(Y), cost_sensitive=False)
    assert found[-1].Y.nnz == np.count_nonzero(targets())
