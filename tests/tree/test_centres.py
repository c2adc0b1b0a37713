"""Centres of a tree's clusters."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.sparse.csr import as_csr
from xmcspark.tree.build import build_tree
from xmcspark.tree.centres import centre_grid, tree_centres

LABELS, FEATURES = 300, 80


@pytest.fixture(scope="module")
def clustered():
    random = np.random.default_rng(0)
    Z = sp.random(LABELS, FEATURES, 0.1, "csr", np.float32, random)
    Z = as_csr(Z / np.maximum(sp.linalg.norm(Z, axis=1), 1e-9)[:, None])
    return Z, build_tree(Z, branching=4, max_leaf=8)


def centres(clustered, levels, most=FEATURES, threads=1):
    Z, tree = clustered
    how = {"grid": centre_grid(LABELS), "max_features": most, "threads": threads}
    return dict(tree_centres(Z, tree, levels, **how))


def test_a_centre_is_the_normalised_sum_of_its_labels(clustered):
    Z, tree = clustered
    found = centres(clustered, tree.depth)
    assert sorted(found) == list(range(tree.depth))
    for level, C in found.items():
        bounds = tree.leaf_range(level)
        for node in range(C.shape[0]):
            total = Z.to_scipy()[tree.labels[bounds[node] : bounds[node + 1]]].sum(axis=0).A1
            expected = total / np.linalg.norm(total)
            np.testing.assert_allclose(C.to_scipy()[node].toarray()[0], expected, atol=1e-5)


def test_a_level_is_the_same_bits_whether_summed_from_labels_or_from_the_level_below(clustered):
    _, tree = clustered
    every = centres(clustered, tree.depth, threads=2)
    for levels in range(1, tree.depth):
        alone = centres(clustered, levels)[levels - 1]
        assert alone.data.tobytes() == every[levels - 1].data.tobytes()
        assert np.array_equal(alone.indices, every[levels - 1].indices)


def test_only_the_largest_entries_are_kept(clustered):
    whole, few = centres(clustered, 1)[0].to_scipy(), centres(clustered, 1, most=3)[0].to_scipy()
    assert few.nnz == 3
    assert set(few.indices) == set(whole.indices[np.argsort(-whole.data)[:3]])
    assert np.linalg.norm(few.data) == pytest.approx(1)
