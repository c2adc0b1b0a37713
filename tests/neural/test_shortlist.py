"""Shortlists hold the children of true and of predicted parents, and predictions are those of a slow search."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.matchers.model import Matchers
from xmcspark.matchers.scoring import Scoring
from xmcspark.neural import shortlist
from xmcspark.neural.shortlist import best_children, candidate_pairs, children_of, united
from xmcspark.sparse.csr import Csr, as_csr, with_dense


def some_parents(rng: np.random.Generator, rows: int, nodes: int) -> np.ndarray:
    return rng.random((rows, nodes)).astype(np.float32) * (rng.random((rows, nodes)) < 0.5)


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))
def test_children_carry_the_value_of_their_parent(seed, rows, nodes):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(1, 4, nodes))])
    parents = some_parents(rng, rows, nodes)
    found = children_of(as_csr(parents), ptr).to_scipy().toarray()
    np.testing.assert_array_equal(found, np.repeat(parents, np.diff(ptr), axis=1))


@given(st.integers(0, 2**31))
def test_candidates_of_a_batch_are_those_of_its_rows_in_their_order(seed):
    rng = np.random.default_rng(seed)
    ptr, parents = np.array([0, 2, 3, 6]), some_parents(rng, 5, 3)
    rows = rng.permutation(5)[:3]
    places, children = candidate_pairs(as_csr(parents), ptr, rows)
    wanted = np.argwhere(np.repeat(parents[rows] != 0, np.diff(ptr), axis=1))
    np.testing.assert_array_equal(np.stack([places, children], axis=1), wanted)


def test_a_shortlist_is_both_kinds_of_parents():
    one, other = sp.csr_matrix([[0.5, 0, 0], [0, 0, 0]]), sp.csr_matrix([[1, 0, 1], [0, 1, 0]])
    found = united(as_csr(one), as_csr(other))
    np.testing.assert_array_equal(found.to_scipy().toarray(), [[1, 0, 1], [0, 1, 0]])


def test_a_parent_whose_score_has_become_0_is_on_the_shortlist():
    vanished = Csr(np.array([0, 2]), np.array([0, 2], np.int32), np.array([0.0, 0.5], np.float32), (1, 3))
    nothing = as_csr(np.zeros((1, 3), np.float32))
    for found in (united(vanished, nothing), united(nothing, vanished)):
        np.testing.assert_array_equal(found.to_scipy().toarray(), [[1, 0, 1]])


def test_best_children_are_those_of_a_slow_search():
    rng = np.random.default_rng(4)
    rows, ptr, sparse_columns, width = 7, np.array([0, 3, 4, 8, 10]), 5, 3
    X = np.hstack(
        [
            rng.random((rows, sparse_columns)) * (rng.random((rows, sparse_columns)) < 0.5),
            rng.random((rows, width)),
        ]
    )
    W = rng.standard_normal((10, sparse_columns + width)).astype(np.float32)
    bias = rng.standard_normal(10).astype(np.float32)
    parents = some_parents(rng, rows, 4)
    parents[:, 1] = 0.7  # every row has some
    matrix = with_dense(sp.csr_matrix(X[:, :sparse_columns]), X[:, sparse_columns:])
    matchers = Matchers(with_dense(sp.csr_matrix(W[:, :sparse_columns]), W[:, sparse_columns:]), bias)
    found = best_children(matrix, matchers, ptr, as_csr(parents), 3, scoring=Scoring("sigmoid"))
    scores = np.repeat(parents, np.diff(ptr), axis=1) / (1 + np.exp(-(X @ W.T + bias)))
    for row in range(rows):
        best = np.argsort(-scores[row])[:3]
        best = best[scores[row, best] > 0]
        own = slice(found.indptr[row], found.indptr[row + 1])
        assert set(found.indices[own]) == set(best)
        np.testing.assert_allclose(found.data[own], scores[row, found.indices[own]], rtol=2e-3)


def test_candidates_of_a_few_rows_at_a_time_give_the_same_children(monkeypatch):
    rng = np.random.default_rng(5)
    ptr, parents = np.array([0, 3, 4, 8, 10]), as_csr(some_parents(rng, 40, 4))
    X = with_dense(sp.random(40, 6, 0.5, "csr", random_state=rng), rng.random((40, 3)))
    W = with_dense(sp.random(10, 6, 0.5, "csr", random_state=rng), rng.standard_normal((10, 3)))
    matchers = Matchers(W, rng.standard_normal(10).astype(np.float32))
    whole = best_children(X, matchers, ptr, parents, 3)
    most, plain = [], shortlist.children_of
    monkeypatch.setattr(shortlist, "_CANDIDATES", 30)
    monkeypatch.setattr(shortlist, "children_of", lambda p, c: most.append(p.shape[0]) or plain(p, c))
    found = best_children(X, matchers, ptr, parents, 3)
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, part), getattr(whole, part))
    assert max(most) < 10


def test_a_parent_that_is_hardly_likely_stays_a_candidate():
    parents = as_csr(np.array([[1e-38, 0.5]], np.float32))
    matchers = Matchers(as_csr(np.zeros((3, 2), np.float32)), np.array([0.0, 0.0, 0.0], np.float32))
    found = best_children(as_csr(np.ones((1, 2), np.float32)), matchers, np.array([0, 1, 3]), parents, 5)
    np.testing.assert_array_equal(found.indices, [0, 1, 2])
