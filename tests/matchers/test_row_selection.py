"""A node with too many rows takes a fair part of them, the same one everywhere."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from small_problem import even_tree

from xmcspark.errors import InputError
from xmcspark.matchers.row_selection import row_cap, row_hashes
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import as_csr


def skewed_targets(rows, children, seed):
    """Each row has one or two children, the first ones far more often."""
    rng = np.random.default_rng(seed)
    picked = (rng.pareto(1.0, 2 * rows)).astype(int).clip(0, children - 1)
    Y = sp.csr_matrix((np.ones(2 * rows), (np.repeat(np.arange(rows), 2), picked)), shape=(rows, children))
    Y.data[:] = 1
    return as_csr(Y)


@given(st.integers(100, 1500), st.integers(1, 60), st.integers(0, 10**6))
def test_no_more_rows_than_allowed_and_rare_children_keep_theirs(most, children, seed):
    rows = 3000
    Y = skewed_targets(rows, children, seed)
    positives = np.bincount(Y.indices, minlength=children)
    cap = row_cap(rows, positives, most)
    kept = cap.keeps(row_hashes(seed, np.arange(rows)), Y)
    assert most / 3 - 100 < kept.sum() <= most
    left = Y.to_scipy()[kept].sum(axis=0).A1
    rare = positives <= (most - 6 * most**0.5) / 2 / children
    np.testing.assert_array_equal(left[rare], positives[rare])


def test_a_node_within_the_limit_takes_all():
    assert row_cap(100, np.array([50, 60]), 100) is None


def test_balanced_children_use_the_whole_budget():
    children, rows = 20, 100_000
    Y = as_csr(sp.csr_matrix((np.ones(rows), (np.arange(rows), np.arange(rows) % children))))
    cap = row_cap(rows, np.bincount(Y.indices), 10_000)
    assert 9000 < cap.keeps(row_hashes(1, np.arange(rows)), Y).sum() <= 10_000


def test_the_choice_depends_on_keys_and_not_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = sp.random(800, 30, 0.2, format="csr", random_state=rng, dtype=np.float32)
    Y = sp.random(800, 12, 0.1, format="csr", random_state=rng, dtype=np.float32)
    Y.data[:] = 1
    keys = rng.integers(0, 2**60, 800)
    order = rng.permutation(800)
    # With a tight tolerance the order of rows hardly matters, the choice of rows does.
    how = {"max_rows": 200, "tolerance": 1e-4, "max_sweeps": 5000, "threshold": 0.0}
    one = train_matchers(X, Y, even_tree(12), row_keys=keys, **how)
    same = train_matchers(X[order], Y[order], even_tree(12), row_keys=keys[order], **how)
    other = train_matchers(X[order], Y[order], even_tree(12), row_keys=keys, **how)
    np.testing.assert_allclose(one.matchers[0].bias, same.matchers[0].bias, atol=1e-3)
    assert abs(one.matchers[0].bias - other.matchers[0].bias).max() > 0.02


@pytest.mark.parametrize("keys", [np.arange(3), np.arange(4.0), np.zeros((4, 1), np.int64)])
def test_row_keys_must_be_one_number_a_row(keys):
    X, Y = np.ones((4, 2), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(InputError, match=r"row_keys.*one int64 for each of the 4 rows"):
        train_matchers(X, Y, even_tree(2), row_keys=keys)
