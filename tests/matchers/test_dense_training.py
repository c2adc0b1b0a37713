"""Matchers on rows with a dense block: the optimum of the same rows with the block's columns as ordinary features."""

import numpy as np
import pytest
import scipy.sparse as sp
from dense_problem import dense_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problem import even_tree
from test_solver import EXACT, best_value, objective, weights_of

from xmcspark.errors import InputError
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import with_dense
from xmcspark.sparse.rows import take_rows

LOSSES = ["squared_hinge", "hinge", "logistic"]


def assert_same(one, other):
    for a, b in zip(one.matchers, other.matchers, strict=True):
        for name in ("indptr", "indices", "data", "dense"):
            np.testing.assert_array_equal(getattr(a.weights, name), getattr(b.weights, name))
        np.testing.assert_array_equal(a.bias, b.bias)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("soft", [False, True])
def test_each_matcher_minimises_its_objective(loss, soft):
    X, Y = dense_problem(soft=soft)
    model = train_matchers(X, Y, even_tree(21), loss=loss, cost_positive=2.0, cost_negative=0.5, **EXACT)
    assert model.matchers[0].weights.dense.shape == (21, 21)
    for label in range(0, 21, 4):
        y = Y[:, [label]].toarray().ravel()
        cp, cn = np.full(len(y), 2.0), np.full(len(y), 0.5)
        reached = objective(weights_of(model, label), X.to_scipy(), y, cp, cn, loss)[0]
        assert reached <= best_value(X.to_scipy(), y, cp, cn, loss) * (1 + 2e-3) + 1e-4


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 40),
    st.sampled_from(LOSSES),
    st.booleans(),
)
def test_any_shape_has_the_optimum_of_the_expanded_rows(seed, rows, width, labels, loss, soft):
    X, Y = dense_problem(rows, 30, width, labels, seed, soft)
    if not Y.nnz:
        return
    tree, ones = even_tree(labels), np.ones(rows)
    block = train_matchers(X, Y, tree, loss=loss, **EXACT)
    expanded = train_matchers(X.expanded(), Y, tree, loss=loss, **EXACT)
    for label in {int(Y.indices[0]), labels - 1}:
        y = Y[:, [label]].toarray().ravel()
        values = [
            objective(weights_of(model, label), X.to_scipy(), y, ones, ones, loss)[0]
            for model in (block, expanded)
        ]
        assert values[0] <= values[1] * (1 + 2e-3) + 1e-4


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(LOSSES), st.booleans())
def test_a_label_has_the_same_weights_alone_and_with_siblings(seed, labels, loss, soft):
    X, Y = dense_problem(rows=50, width=37, labels=labels, seed=seed, soft=soft)
    if not Y.nnz:
        return
    together = train_matchers(X, Y, even_tree(labels), loss=loss, threshold=0.0)
    label = int(Y.indices[0])
    alone = train_matchers(X, Y[:, [label]], even_tree(1), loss=loss, threshold=0.0)
    np.testing.assert_array_equal(weights_of(together, label), weights_of(alone, 0))


@pytest.mark.parametrize("negatives", ["tfn", "man", "tfn+man"])
def test_threads_do_not_change_a_bit(negatives):
    X, Y = dense_problem(rows=300, labels=130, soft=True)
    tree = even_tree(130, (3, 9))
    one, four = (train_matchers(X, Y, tree, negatives=negatives, threads=t) for t in (1, 4))
    assert_same(one, four)


def test_a_wide_node_is_the_same_on_any_number_of_threads():
    X, Y = dense_problem(rows=1500, labels=400, width=5)
    one, three = (train_matchers(X, Y, even_tree(400), threads=t) for t in (1, 3))
    assert_same(one, three)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [21, 40])
def test_a_warm_start_reaches_the_optimum_of_a_cold_one(loss, labels):
    X, Y = dense_problem(rows=200, labels=labels)
    tree = even_tree(labels, (4,))
    other = train_matchers(take_rows(X, np.arange(150)), Y[:150], tree, loss=loss)
    cold = train_matchers(X, Y, tree, loss=loss, **EXACT)
    warm = train_matchers(X, Y, tree, loss=loss, start=other, **EXACT)
    for a, b in zip(cold.matchers, warm.matchers, strict=True):
        difference = abs(a.weights.to_scipy() - b.weights.to_scipy()).max()
        assert 0 < difference < (5e-2 if loss == "hinge" else 5e-3)
        np.testing.assert_allclose(a.bias, b.bias, atol=5e-2)


def test_a_warm_start_from_the_optimum_needs_one_sweep():
    X, Y = dense_problem(rows=200)
    tree = even_tree(21)
    cold = train_matchers(X, Y, tree, **EXACT).matchers[0].weights.dense
    one_sweep = {"tolerance": 1e-4, "max_sweeps": 1, "threshold": 0.0}
    start = train_matchers(X, Y, tree, **EXACT)
    distance = [
        abs(train_matchers(X, Y, tree, start=model, **one_sweep).matchers[0].weights.dense - cold).max()
        for model in (start, None)
    ]
    assert distance[0] < 0.02 * distance[1]


def test_weights_of_the_block_are_kept_whatever_is_pruned():
    X, Y = dense_problem()
    every = train_matchers(X, Y, even_tree(21), threshold=0.0).matchers[0].weights
    few = train_matchers(X, Y, even_tree(21), threshold=0.1, max_weights=3).matchers[0].weights
    np.testing.assert_array_equal(few.dense, every.dense)
    assert np.diff(few.indptr).max() <= 3 < np.diff(every.indptr).max()


def test_rows_may_have_no_sparse_columns_at_all():
    X, Y = dense_problem()
    alone = with_dense(sp.csr_matrix((X.shape[0], 0), dtype=np.float32), X.dense)
    model = train_matchers(alone, Y, even_tree(21), **EXACT)
    assert model.matchers[0].weights.shape == (21, 21)
    y, ones = Y[:, [3]].toarray().ravel(), np.ones(X.shape[0])
    reached = objective(weights_of(model, 3), alone.to_scipy(), y, ones, ones, "squared_hinge")[0]
    assert reached <= best_value(alone.to_scipy(), y, ones, ones, "squared_hinge") * (1 + 2e-3) + 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_rows_and_relevance_count_as_in_the_expanded_rows(loss):
    X, Y = dense_problem(soft=True)
    rng = np.random.default_rng(3)
    relevance = Y.copy()
    relevance.data[:] = rng.integers(1, 9, Y.nnz)
    how = {
        "relevance": relevance,
        "cost_sensitive": True,
        "row_weights": rng.choice([0.25, 1.0, 3.0], X.shape[0]),
        "row_negatives": rng.choice([0.0, 0.5, 1.0], X.shape[0]),
        "extra_negatives": sp.random(*Y.shape, 0.05, format="csr", random_state=rng),
        "loss": loss,
        **EXACT,
    }
    one, other = (train_matchers(rows, Y, even_tree(21, (4,)), **how) for rows in (X, X.expanded()))
    for a, b in zip(one.matchers, other.matchers, strict=True):
        assert abs(a.weights.to_scipy() - b.weights.to_scipy()).max() < 2e-2
        np.testing.assert_allclose(a.bias, b.bias, atol=2e-2)


def test_man_takes_the_negatives_that_search_with_the_block_would_send():
    X, Y = dense_problem(rows=200, labels=40)
    tree = even_tree(40, (4,))
    both = [
        train_matchers(rows, Y, tree, negatives="tfn+man", man_beam=2, **EXACT) for rows in (X, X.expanded())
    ]
    tfn = train_matchers(X, Y, tree, **EXACT)
    levels = [model.matchers[1].weights.to_scipy() for model in (*both, tfn)]
    assert abs(levels[0] - levels[1]).max() < 5e-3
    assert abs(levels[0] - levels[2]).max() > 0.1


def test_a_start_with_another_block_is_refused():
    X, Y = dense_problem()
    tree = even_tree(21)
    plain, block = train_matchers(X.expanded(), Y, tree), train_matchers(X, Y, tree)
    with pytest.raises(InputError, match=r"the model to start from has none: give X\.sparse"):
        train_matchers(X, Y, tree, start=plain)
    with pytest.raises(InputError, match=r"a dense block of 21 columns, but X has none: give with_dense"):
        train_matchers(X.expanded(), Y, tree, start=block)
