"""Mixtures of rows: the right sums, shares from Beta(a, a), partners that no partitioning changes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from xmcspark.errors import InputError
from xmcspark.labels.mixup import (
    label_partners,
    mixed_rows,
    mixed_targets,
    mixing_shares,
    mixup_group,
    mixup_partners,
)
from xmcspark.sparse.csr import as_csr

KEYS = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 20_000)


def rows_of(seed, rows=30, cols=40):
    return sp.random(rows, cols, 0.2, format="csr", dtype=np.float32, random_state=seed)


@given(seed=st.integers(0, 2**32 - 2))
def test_rows_are_mixed_by_their_shares(seed):
    X1, X2 = rows_of(seed), rows_of(seed + 1)
    shares = np.random.default_rng(seed).random(30).astype(np.float32)
    wanted = sp.diags(shares.astype(float)) @ X1 + sp.diags(1 - shares.astype(float)) @ X2
    found = mixed_rows(as_csr(X1), as_csr(X2), shares)
    np.testing.assert_allclose(found.to_scipy().toarray(), wanted.toarray(), atol=1e-7)


def test_targets_stay_targets():
    ones = as_csr(np.ones((1000, 1)))
    shares = np.random.default_rng(0).random(1000).astype(np.float32)
    both = mixed_targets(ones, ones, shares).data
    assert both.max() <= 1
    np.testing.assert_allclose(both, 1, rtol=1e-6)
    none = as_csr(sp.csr_matrix((2, 1)))
    kept = mixed_targets(as_csr(np.ones((2, 1))), none, np.float32([0.0, 0.25]))
    np.testing.assert_array_equal(kept.to_scipy().toarray(), [[0], [0.25]])
    assert kept.nnz == 1


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0, 2.0])
def test_shares_have_the_distribution_asked_for(alpha):
    shares = mixing_shares(KEYS, alpha, seed=3)
    assert shares.dtype == np.float32
    assert ((shares >= 0) & (shares <= 1)).all()
    quantiles = np.linspace(0.01, 0.99, 50)
    assert (
        abs((shares[:, None] <= quantiles).mean(axis=0) - stats.beta(alpha, alpha).cdf(quantiles)).max()
        < 0.015
    )


def test_shares_follow_from_keys_and_seed():
    whole = mixing_shares(KEYS, 0.2, seed=3)
    np.testing.assert_array_equal(mixing_shares(KEYS[100:200], 0.2, seed=3), whole[100:200])
    assert (mixing_shares(KEYS, 0.2, seed=4) != whole).any()


@given(size=st.integers(2, 50), seed=st.integers(0, 1000))
def test_partners_of_a_group_are_others_each_once_in_any_order(size, seed):
    keys = KEYS[:size]
    partners = mixup_partners(keys, seed)
    assert (partners != np.arange(size)).all()
    assert sorted(partners) == list(range(size))
    order = np.random.default_rng(seed).permutation(size)
    np.testing.assert_array_equal(keys[order][mixup_partners(keys[order], seed)], keys[partners][order])


def test_a_row_without_others_is_its_own_partner():
    np.testing.assert_array_equal(mixup_partners(KEYS[:1], 0), [0])


def test_groups_are_even_and_follow_from_keys():
    groups = mixup_group(KEYS, 10, seed=1)
    sizes = np.bincount(groups, minlength=10)
    assert len(sizes) == 10
    assert abs(sizes - 2000).max() < 250
    np.testing.assert_array_equal(mixup_group(KEYS[50:60], 10, seed=1), groups[50:60])


def test_a_row_is_mixed_with_one_of_its_own_labels():
    Y = rows_of(4, 500, 20)
    partners = label_partners(as_csr(Y), KEYS[:500], seed=2)
    dense = Y.toarray() != 0
    for row, label in enumerate(partners):
        assert dense[row, label] if label >= 0 else not dense[row].any()
    every = label_partners(as_csr(np.ones((6000, 3))), KEYS[:6000], seed=2)
    assert abs(np.bincount(every) - 2000).max() < 200
    np.testing.assert_array_equal(label_partners(as_csr(Y[40:50]), KEYS[40:50], seed=2), partners[40:50])


def test_rows_that_do_not_go_together_are_refused():
    X = as_csr(rows_of(1))
    with pytest.raises(InputError, match="29 rows"):
        mixed_rows(X, as_csr(rows_of(1, 29)), np.ones(30, np.float32))
    with pytest.raises(InputError, match="3 shares for 30 rows"):
        mixed_rows(X, X, np.ones(3, np.float32))
    with pytest.raises(InputError, match="3 row keys for 30 rows"):
        label_partners(X, np.arange(3), 0)
