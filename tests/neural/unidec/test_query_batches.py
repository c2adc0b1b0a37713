"""Batches of queries: every query once, equal sizes, neighbours together, and the same for the same seed and epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.neural.unidec.query_batches import clustered_order, query_batches


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(1, 90), st.integers(6, 20), st.integers(1, 3), st.integers(0, 100))
def test_every_query_is_in_one_batch_and_all_but_one_are_full(queries, size, least, seed):
    vectors = unit(np.random.default_rng(seed).normal(size=(queries, 5)))
    order = clustered_order(vectors, size, seed=seed)
    batches = query_batches(order, size, least=least, seed=seed, epoch=0)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(queries))
    assert max(map(len, batches)) <= size
    assert sum(len(batch) != size for batch in batches) <= (1 if least == 1 else 2)
    assert min(map(len, batches)) >= min(least, queries)
    assert len(batches) == -(-queries // size)


def test_a_batch_is_a_cluster():
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(8), 32)
    vectors = unit(rng.normal(size=(8, 24))[topic] + 0.2 * rng.normal(size=(256, 24)))
    shuffled = rng.permutation(256)
    order = clustered_order(vectors[shuffled], 32, seed=1)
    pure = [len(set(topic[shuffled[batch]])) == 1 for batch in query_batches(order, 32, seed=1, epoch=0)]
    assert sum(pure) >= 6


def test_what_is_left_over_differs_by_seed():
    vectors = unit(np.random.default_rng(0).normal(size=(70, 4)))
    left = [set(clustered_order(vectors, 32, seed=seed)[64:].tolist()) for seed in range(3)]
    assert len(left[0]) == 6
    assert left[0] != left[1] or left[1] != left[2]


def test_order_follows_from_seed_and_epoch():
    order = np.arange(100)
    batches = [
        [batch[0] for batch in query_batches(order, 10, seed=seed, epoch=epoch)]
        for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    assert batches[0] == batches[1]
    assert batches[0] != batches[2]
    assert batches[0] != batches[3]


def test_clusters_do_not_depend_on_threads():
    vectors = unit(np.random.default_rng(3).normal(size=(300, 16)))
    one = clustered_order(vectors, 16, seed=0, threads=1)
    np.testing.assert_array_equal(one, clustered_order(vectors, 16, seed=0, threads=2))


def test_batches_without_queries_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        clustered_order(np.ones((3, 2), np.float32), 0, seed=0)
