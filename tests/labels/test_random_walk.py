"""Random walks over the label graph: reproducible label by label, and about what the graph says."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.labels.random_walk import walked
from xmcspark.sparse.csr import as_csr


def graph_of(Y):
    return counted_neighbours(as_csr(Y), 10**6)[0]


@pytest.fixture(scope="module")
def graph():
    return graph_of(sp.random(400, 50, 0.06, format="csr", dtype=np.float32, random_state=4))


def assert_same(one, other):
    for name in ("labels", "indptr", "neighbours", "counts", "own"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(block=st.integers(1, 60), wanted=st.sets(st.integers(0, 49), min_size=1))
def test_a_walk_depends_on_its_label_and_the_seed_only(graph, block, wanted):
    labels = np.array(sorted(wanted & set(graph.labels.tolist())), np.int32)
    whole = walked(graph, graph.labels, 0.8, 40, seed=7)
    places = np.searchsorted(graph.labels, labels)
    assert_same(walked(graph, labels, 0.8, 40, seed=7, block=block), whole.take(places))


def test_another_seed_walks_elsewhere(graph):
    one, other = (walked(graph, graph.labels, 0.5, 100, seed).counts for seed in (1, 2))
    assert len(one) != len(other) or (one != other).any()


def test_walks_that_always_restart_find_the_probabilities_of_the_graph():
    Y = np.zeros((100, 3))
    Y[:, 0] = 1
    Y[:50, 1] = 1
    Y[:10, 2] = 1
    found = walked(graph_of(Y), np.int32([0]), restart=1.0, length=20_000, seed=0)
    np.testing.assert_allclose(found.ratio, [1, 0.5, 0.1], atol=0.02)


def test_walks_without_restarts_go_where_walks_of_one_step_do_not():
    chain = sp.csr_matrix(np.eye(6) + np.eye(6, k=1))[:5]
    graph = graph_of(chain)
    near, far = (walked(graph, np.int32([0]), restart, 400, seed=0) for restart in (1.0, 0.0))
    np.testing.assert_array_equal(near.neighbours, [0, 1])
    np.testing.assert_array_equal(far.neighbours, np.arange(6))
    some = walked(graph, np.int32([0]), 0.8, 400, seed=0)
    visits = dict(zip(some.neighbours.tolist(), some.counts.tolist(), strict=True))
    assert visits[0] >= visits[1] > visits[2] > visits.get(3, 0)  # the farther, the fewer


def test_visits_stay_inside_a_component_and_none_is_above_the_start():
    Y = sp.block_diag([np.ones((30, 3)), np.ones((30, 4))]).tocsr()
    found = walked(graph_of(Y), np.arange(7, dtype=np.int32), 0.8, 300, seed=3)
    own = np.repeat(found.own, np.diff(found.indptr))
    start = np.repeat(found.labels, np.diff(found.indptr))
    assert ((start < 3) == (found.neighbours < 3)).all()
    assert (found.counts <= own).all()
    assert (found.counts >= 1).all()
    np.testing.assert_array_equal(found.counts[found.itself], found.own)


def test_no_labels_walk_nowhere(graph):
    assert len(walked(graph, np.zeros(0, np.int32), 0.8, 10, seed=0).neighbours) == 0


def test_labels_that_the_graph_does_not_have_are_refused(graph):
    with pytest.raises(InputError, match="label 77 has no row"):
        walked(graph, np.int32([77]), 0.8, 10, seed=0)
    half = graph.take(np.arange(0, len(graph.labels), 2))
    with pytest.raises(InputError, match="walk over the whole graph"):
        walked(half, half.labels, 0.8, 50, seed=0)
