"""The sixteen-lane solver against plain numerical optimisation of the same objective."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from small_problem import even_tree, random_problem

from xmcspark.errors import InputError
from xmcspark.matchers.train import train_matchers

EXACT = {"tolerance": 1e-3, "max_sweeps": 500, "threshold": 0.0}


def loss_and_slope(loss, margin):
    if loss == "squared_hinge":
        gap = np.maximum(1 - margin, 0)
        return gap**2, -2 * gap
    if loss == "hinge":
        return np.maximum(1 - margin, 0), -(margin < 1).astype(float)
    return np.logaddexp(0, -margin), -expit(-margin)


def objective(w, X, y, cost_positive, cost_negative, loss):
    """1/2 |w|^2 + sum of y l(+m) Cp + (1 - y) l(-m) Cn, w with the bias last; and its gradient."""
    m = X @ w[:-1] + w[-1]
    up, up_slope = loss_and_slope(loss, m)
    down, down_slope = loss_and_slope(loss, -m)
    value = 0.5 * w @ w + cost_positive @ (y * up) + cost_negative @ ((1 - y) * down)
    slope = cost_positive * y * up_slope - cost_negative * (1 - y) * down_slope
    return value, w + np.append(X.T @ slope, slope.sum())


def best_value(X, y, cost_positive, cost_negative, loss):
    X, start = X.toarray().astype(float), np.zeros(X.shape[1] + 1)
    args = (X, y, cost_positive, cost_negative, loss)
    return minimize(objective, start, args, jac=True, method="L-BFGS-B", options={"maxiter": 500}).fun


def weights_of(model, label, level=-1):
    place = model.tree.position_of_label[label]
    matchers = model.matchers[level]
    return np.append(matchers.weights.to_scipy()[place].toarray().ravel(), matchers.bias[place])


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("soft", [False, True])
def test_each_matcher_minimises_its_objective(loss, soft):
    X, Y = random_problem(soft=soft)
    model = train_matchers(X, Y, even_tree(21), loss=loss, cost_positive=2.0, cost_negative=0.5, **EXACT)
    for label in range(0, 21, 4):
        y = Y[:, [label]].toarray().ravel()
        cp, cn = np.full(len(y), 2.0), np.full(len(y), 0.5)
        reached = objective(weights_of(model, label), X, y, cp, cn, loss)[0]
        best = best_value(X, y, cp, cn, loss)
        assert reached <= best * (1 + 2e-3) + 1e-4


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("soft", [False, True])
def test_a_row_counts_as_much_as_its_weight_says(loss, soft):
    X, Y = random_problem(soft=soft)
    weight = np.random.default_rng(1).choice([0.25, 1.0, 3.0], X.shape[0]).astype(np.float32)
    share = np.random.default_rng(2).choice([0.0, 0.5, 1.0], X.shape[0]).astype(np.float32)
    how = {"row_weights": weight, "row_negatives": share, **EXACT}
    model = train_matchers(X, Y, even_tree(21), loss=loss, **how)
    for label in range(0, 21, 4):
        y = Y[:, [label]].toarray().ravel()
        negative = np.where(y > 0, weight, weight * share)
        reached = objective(weights_of(model, label), X, y, weight, negative, loss)[0]
        assert reached <= best_value(X, y, weight, negative, loss) * (1 + 2e-3) + 1e-4


def test_rows_of_weight_one_are_rows_without_weights():
    X, Y = random_problem()
    plain, weighed = (
        train_matchers(X, Y, even_tree(21), row_weights=weights) for weights in (None, np.ones(X.shape[0]))
    )
    np.testing.assert_array_equal(plain.matchers[0].weights.data, weighed.matchers[0].weights.data)


@pytest.mark.parametrize("weights", [np.ones(3), np.zeros(100), np.full(100, np.nan)])
def test_weights_that_make_no_sense_are_refused(weights):
    X, Y = random_problem(rows=100)
    with pytest.raises(InputError, match="row_weights must be 100 finite numbers above 0"):
        train_matchers(X, Y, even_tree(21), row_weights=weights)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(["squared_hinge", "hinge", "logistic"]))
def test_a_label_has_the_same_weights_alone_and_with_siblings(seed, labels, loss):
    X, Y = random_problem(rows=50, labels=labels, seed=seed)
    if not Y.nnz:
        return
    together = train_matchers(X, Y, even_tree(labels), loss=loss, threshold=0.0)
    label = int(Y.indices[0])
    alone = train_matchers(X, Y[:, [label]], even_tree(1), loss=loss, threshold=0.0)
    np.testing.assert_array_equal(weights_of(together, label), weights_of(alone, 0))


@pytest.mark.parametrize("negatives", ["tfn", "man", "tfn+man"])
def test_threads_do_not_change_a_bit(negatives):
    X, Y = random_problem(rows=300, labels=130, soft=True)
    tree = even_tree(130, (3, 9))
    one, four = (train_matchers(X, Y, tree, negatives=negatives, threads=t) for t in (1, 4))
    for a, b in zip(one.matchers, four.matchers, strict=True):
        np.testing.assert_array_equal(a.weights.indices, b.weights.indices)
        np.testing.assert_array_equal(a.weights.data, b.weights.data)
        np.testing.assert_array_equal(a.bias, b.bias)


def test_a_wide_node_is_the_same_on_any_number_of_threads():
    X, Y = random_problem(rows=1500, labels=400)
    one, three = (train_matchers(X, Y, even_tree(400), threads=t) for t in (1, 3))
    np.testing.assert_array_equal(one.matchers[0].weights.data, three.matchers[0].weights.data)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_a_warm_start_reaches_the_optimum_of_a_cold_one(loss):
    X, Y = random_problem(rows=200)
    tree = even_tree(21, (4,))
    other = train_matchers(X[:150], Y[:150], tree, loss=loss)  # from other data, and pruned
    cold = train_matchers(X, Y, tree, loss=loss, **EXACT)
    warm = train_matchers(X, Y, tree, loss=loss, start=other, **EXACT)
    assert any(
        not np.array_equal(a.weights.data, b.weights.data)
        for a, b in zip(cold.matchers, warm.matchers, strict=True)
    )
    for a, b in zip(cold.matchers, warm.matchers, strict=True):
        difference = abs(a.weights.to_scipy() - b.weights.to_scipy()).max()
        assert difference < (5e-2 if loss == "hinge" else 5e-3)
        np.testing.assert_allclose(a.bias, b.bias, atol=5e-2)


def test_a_warm_start_from_the_optimum_needs_one_sweep():
    X, Y = random_problem(rows=200)
    tree = even_tree(21)
    cold = train_matchers(X, Y, tree, **EXACT)
    one_sweep = {"tolerance": 1e-4, "max_sweeps": 1, "threshold": 0.0}
    warm = train_matchers(X, Y, tree, start=cold, **one_sweep)
    cold_sweep = train_matchers(X, Y, tree, **one_sweep)
    distance = [
        abs(m.matchers[0].weights.to_scipy() - cold.matchers[0].weights.to_scipy()).max()
        for m in (warm, cold_sweep)
    ]
    assert distance[0] < 0.02 * distance[1]


def test_only_weights_above_the_threshold_survive():
    X, Y = random_problem()
    every = train_matchers(X, Y, even_tree(21), threshold=0.0)
    some = train_matchers(X, Y, even_tree(21), threshold=0.1)
    kept = abs(every.matchers[0].weights.data) >= np.float32(0.1)
    np.testing.assert_array_equal(every.matchers[0].weights.data[kept], some.matchers[0].weights.data)


def test_the_largest_weights_of_each_label_survive():
    X, Y = random_problem()
    every = train_matchers(X, Y, even_tree(21), threshold=0.0).matchers[0].weights.to_scipy()
    most = train_matchers(X, Y, even_tree(21), threshold=0.0, max_weights=5).matchers[0].weights.to_scipy()
    for row in range(21):
        largest = np.sort(abs(every[row].data))[::-1][:5]
        np.testing.assert_array_equal(np.sort(abs(most[row].data))[::-1], largest)


def test_a_positive_weighs_its_share_of_the_rows_relevance():
    X, Y = random_problem()
    relevance = Y.copy()
    relevance.data[:] = np.random.default_rng(1).integers(1, 9, Y.nnz)
    model = train_matchers(X, Y, even_tree(21), relevance=relevance, cost_sensitive=True, alpha=0.25, **EXACT)
    share = relevance.multiply(1 / np.maximum(relevance.sum(axis=1), 1)).tocsr()
    for label in range(0, 21, 4):
        y = Y[:, [label]].toarray().ravel()
        cp, cn = share[:, [label]].toarray().ravel(), np.full(len(y), 0.25)
        reached = objective(weights_of(model, label), X, y, cp, cn, "squared_hinge")[0]
        assert reached <= best_value(X, y, cp, cn, "squared_hinge") * (1 + 2e-3) + 1e-4


def test_features_of_one_row_only_get_the_weights_they_would_get_anyway():
    X, Y = random_problem(rows=30, features=40, labels=8)
    X = sp.hstack([X, sp.diags_array(np.linspace(0.5, 1, 30))]).astype(np.float32).tocsr()
    model = train_matchers(X, Y, even_tree(8), **EXACT)
    label = int(Y.indices[0])
    y = Y[:, [label]].toarray().ravel()
    ones = np.ones(len(y))
    reached = objective(weights_of(model, label), X, y, ones, ones, "squared_hinge")[0]
    assert reached <= best_value(X, y, ones, ones, "squared_hinge") * (1 + 1e-3) + 1e-4


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("scale", [0.01, 10.0, 1000.0])
def test_rows_of_any_length_are_solved(loss, scale):
    X, Y = random_problem()
    X = X * np.float32(scale)
    model = train_matchers(X, Y, even_tree(21), loss=loss, tolerance=0.01, max_sweeps=5000, threshold=0.0)
    y = Y[:, [3]].toarray().ravel()
    ones = np.ones(len(y))
    reached = objective(weights_of(model, 3), X, y, ones, ones, loss)[0]
    nothing = objective(np.zeros(41), X, y, ones, ones, loss)[0]
    best = best_value(X, y, ones, ones, loss)
    assert reached <= best + 0.05 * (nothing - best) + 1e-3


def test_soft_and_cost_sensitive_targets_weigh_the_positive_part_once():
    X, Y = random_problem(soft=True)
    model = train_matchers(X, Y, even_tree(21), cost_sensitive=True, alpha=0.5, **EXACT)
    share = (Y > 0).multiply(1 / np.maximum((Y > 0).sum(axis=1), 1)).tocsr()
    for label in range(0, 21, 5):
        y = Y[:, [label]].toarray().ravel()
        cp, cn = share[:, [label]].toarray().ravel(), np.full(len(y), 0.5)
        reached = objective(weights_of(model, label), X, y, cp, cn, "squared_hinge")[0]
        assert reached <= best_value(X, y, cp, cn, "squared_hinge") * (1 + 2e-3) + 1e-4


def test_matchers_that_stop_early_are_counted_in_a_warning(caplog):
    X, Y = random_problem()
    train_matchers(X, Y, even_tree(21), tolerance=1e-6, max_sweeps=1)
    assert "21 matchers stopped after max_sweeps=1" in caplog.text
