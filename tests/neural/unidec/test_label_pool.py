"""Label pools: what is drawn, what is found again, and that the draw follows from seed and step alone."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.neural.unidec.label_pool import PoolSampler
from xmcspark.sparse.csr import as_csr


def labels_of(Y, i):
    return set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist())


def mined_for(Y, width, rng):
    """Negatives of each row, -1 where a row has too few; unsampled positives of other rows are among them."""
    mined = np.full((Y.shape[0], width), -1, np.int32)
    for i in range(Y.shape[0]):
        others = [label for label in rng.permutation(Y.shape[1]) if label not in labels_of(Y, i)][:width]
        mined[i, : len(others)] = others
    return mined


@st.composite
def batches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, labels = draw(st.integers(1, 12)), draw(st.integers(1, 15))
    dense = (rng.random((n, labels)) < draw(st.sampled_from([0.1, 0.4, 1.0]))) * rng.choice(
        [0.5, 1], (n, labels)
    )
    dense[0, 0] = 1  # the pool is not empty
    rows = np.concatenate([[0], 1 + rng.permutation(n - 1)[: draw(st.integers(0, n - 1))]]).astype(np.int64)
    return rng, as_csr(sp.csr_matrix(dense)), dense, rng.permutation(rows)


@given(batches(), st.integers(1, 4), st.integers(0, 4))
def test_in_batch_positives_are_all_positives_that_are_in_the_pool(batch, beta, eta):
    rng, Y, dense, rows = batch
    mined = mined_for(Y, 6, rng)
    pool = PoolSampler(beta, eta, None, seed=3).pool(Y, rows, 7, mined)
    assert np.all(np.diff(pool.labels) > 0)
    expected = dense[np.ix_(rows, pool.labels)]
    found = np.zeros_like(expected)
    found[pool.row, pool.column] = pool.target
    np.testing.assert_array_equal(found, expected)
    assert pool.average_positives == np.count_nonzero(expected) / len(rows)
    for numbers, ones in ((pool.row, pool.one_of_row), (pool.column, pool.one_of_column)):
        np.testing.assert_array_equal(np.sort(numbers[ones]), np.unique(numbers))


@given(batches(), st.integers(1, 4), st.integers(0, 4))
def test_a_query_brings_so_many_positives_and_negatives_as_it_has(batch, beta, eta):
    rng, Y, dense, rows = batch
    mined = mined_for(Y, 6, rng)
    one = rows[dense[rows].any(axis=1)][:1]
    pool = PoolSampler(beta, eta, None, seed=1).pool(Y, one, 2, mined)
    own = len(labels_of(Y, one[0]))
    assert len(pool.row) == min(beta, own)
    assert len(pool.labels) - len(pool.row) == min(eta, int((mined[one] >= 0).sum()))


def test_all_positives_are_taken_if_no_number_is_given():
    Y = as_csr(sp.csr_matrix(np.ones((2, 9))))
    assert len(PoolSampler(None, 0, None, 0).pool(Y, np.array([0]), 0).labels) == 9


def test_the_draw_depends_on_seed_and_step_but_not_on_the_order_of_the_batch():
    Y = as_csr(sp.random(50, 400, 0.2, random_state=1, format="csr"))
    rows = np.arange(20)
    drawn = PoolSampler(3, 0, None, seed=0).pool(Y, rows, 5)
    again = PoolSampler(3, 0, None, seed=0).pool(Y, rows[::-1].copy(), 5)
    np.testing.assert_array_equal(drawn.labels, again.labels)
    other_step = PoolSampler(3, 0, None, seed=0).pool(Y, rows, 6)
    other_seed = PoolSampler(3, 0, None, seed=1).pool(Y, rows, 5)
    assert set(drawn.labels) != set(other_step.labels)
    assert set(drawn.labels) != set(other_seed.labels)


def test_every_positive_and_every_mined_negative_is_drawn_equally_often():
    Y = as_csr(sp.csr_matrix(np.repeat([[1.0, 0.0]], 10, axis=1)))
    mined = np.arange(10, 20, dtype=np.int32)[None, :]
    counts = np.zeros(20)
    for step in range(2000):
        counts[PoolSampler(2, 4, None, 0).pool(Y, np.array([0]), step, mined).labels] += 1
    np.testing.assert_allclose(counts[:10], 400, rtol=0.2)
    np.testing.assert_allclose(counts[10:], 800, rtol=0.2)


def test_soft_targets_are_drawn_as_often_as_they_say():
    targets = np.array([1.0, 0.5, 0.3, 0.2])
    Y = as_csr(sp.csr_matrix(np.tile(targets, (2, 1))))
    of_row, of_column, queries = np.zeros(4), np.zeros(2), np.array([0, 1])
    soft = as_csr(sp.csr_matrix(targets[:2, None]))
    for step in range(2000):
        of_row[PoolSampler(1, 0, None, 0).pool(Y, queries[:1], step).labels] += 1
        pool = PoolSampler(None, 0, None, 0).pool(soft, queries, step)
        of_column[pool.row[pool.one_of_column]] += 1
    np.testing.assert_allclose(of_row, 1000 * targets, rtol=0.2)
    np.testing.assert_allclose(of_column, np.array([4000, 2000]) / 3, rtol=0.1)


def test_a_pool_of_given_size_is_filled_with_positives_and_loses_negatives_first():
    dense = np.zeros((4, 60))
    dense[:, :30] = 1
    Y, rows = as_csr(sp.csr_matrix(dense)), np.arange(4)
    mined = np.tile(np.arange(30, 40, dtype=np.int32), (4, 1))
    natural = PoolSampler(2, 5, None, 0).pool(Y, rows, 0, mined).labels
    sampled = set(PoolSampler(2, 0, None, 0).pool(Y, rows, 0).labels)
    larger = PoolSampler(2, 5, len(natural) + 5, 0).pool(Y, rows, 0, mined).labels
    smaller = PoolSampler(2, 5, len(natural) - 3, 0).pool(Y, rows, 0, mined).labels
    assert set(natural) < set(larger)
    assert all(label < 30 for label in set(larger) - set(natural))
    assert len(larger) == len(natural) + 5
    assert sampled < set(smaller) < set(natural)
    assert len(smaller) == len(natural) - 3
    assert len(PoolSampler(2, 0, 17, 0).pool(Y, rows, 0).labels) == 17


def test_a_pool_whose_queries_have_no_more_labels_is_filled_with_others_at_random():
    """So that pools with and without mined negatives have the same size."""
    dense = np.zeros((4, 5000))
    dense[:, :3] = 1
    Y, rows, others = as_csr(sp.csr_matrix(dense)), np.arange(4), np.arange(1000, 5000)
    sampler = PoolSampler(3, 0, 20, 0, others)
    pools = [sampler.pool(Y, rows, step).labels for step in range(2)]
    for pool in pools:
        assert len(pool) == 20
        assert set(pool) > {0, 1, 2}
        assert set(pool) - {0, 1, 2} < set(others)
    assert set(pools[0]) != set(pools[1])
    assert len(PoolSampler(3, 0, 20, 0).pool(Y, rows, 0).labels) == 3


@pytest.mark.parametrize(("labels", "size"), [(50, 60), (50, 45), (150, 100), (1000, 100)])
def test_a_pool_is_filled_up_to_its_size_or_to_all_there_are(labels, size):
    Y, others = as_csr(sp.csr_matrix(np.eye(8, labels))), np.arange(labels)
    pools = [PoolSampler(3, 0, size, 0, others).pool(Y, np.arange(8), step).labels for step in range(40)]
    assert {len(pool) for pool in pools} == {min(size, labels)}
    assert all(set(range(8)) <= set(pool.tolist()) for pool in pools)
    drawn = np.bincount(np.concatenate(pools), minlength=labels)[8:]
    expected = 40 * (min(size, labels) - 8) / (labels - 8)
    assert abs(drawn.mean() - expected) < 1e-9
    assert drawn.max() <= min(40, expected + 6 * np.sqrt(expected))  # none is preferred


def test_a_pool_that_comes_larger_may_stay_so():
    dense = np.zeros((4, 60))
    dense[:, :30] = 1
    Y, rows, others = as_csr(sp.csr_matrix(dense)), np.arange(4), np.arange(60)
    natural = PoolSampler(10, 0, None, 0).pool(Y, rows, 0)
    kept = PoolSampler(10, 0, 5, 0, others, at_least=True).pool(Y, rows, 0)
    np.testing.assert_array_equal(kept.labels, natural.labels)
    assert len(PoolSampler(10, 0, 50, 0, others, at_least=True).pool(Y, rows, 0).labels) == 50


def test_a_batch_without_any_label_is_refused():
    with pytest.raises(InputError, match="none of its 2 queries has a label"):
        PoolSampler(3, 6, None, 0).pool(as_csr(sp.csr_matrix((3, 5))), np.array([0, 2]), 4)
