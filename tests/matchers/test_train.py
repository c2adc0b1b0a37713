"""Which rows and pairs train which node, and what happens to odd input."""

import numpy as np
import pytest
import scipy.sparse as sp
from small_problem import even_tree, random_problem

from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import by_position, lift
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import as_csr


def test_a_nodes_target_is_the_largest_of_its_labels():
    Y = as_csr(np.array([[0.2, 0, 0.7, 0.1], [0, 0, 0, 0], [0, 1, 0, 0.5]], np.float32))
    lifted = lift(Y, np.array([0, 2, 4]), np.maximum).to_scipy().toarray()
    np.testing.assert_array_equal(lifted, np.array([[0.2, 0.7], [0, 0], [1, 0.5]], np.float32))


def test_a_nodes_relevance_is_the_sum_over_its_labels():
    Y = as_csr(np.array([[2, 1, 0, 3], [0, 0, 5, 0]], np.float32))
    lifted = lift(Y, np.array([0, 2, 4]), np.add).to_scipy().toarray()
    np.testing.assert_array_equal(lifted, [[3, 3], [0, 5]])


def test_lifting_agrees_with_the_tree_of_any_shape():
    _, Y = random_problem(rows=80, labels=50, soft=True)
    tree = even_tree(50, (5, 13))
    level = by_position(as_csr(Y), tree)
    for t in reversed(range(1, tree.depth)):
        level = lift(level, tree.child_ptr[t], np.maximum)
        bounds = tree.leaf_range(t)
        for node in range(tree.level_sizes[t]):
            labels = tree.labels[bounds[node] : bounds[node + 1]]
            expected = Y[:, labels].max(axis=1).toarray().ravel()
            np.testing.assert_array_equal(level.to_scipy()[:, [node]].toarray().ravel(), expected)


def same(a, b):
    return all(
        np.array_equal(x.weights.data, y.weights.data) and np.array_equal(x.bias, y.bias)
        for x, y in zip(a.matchers, b.matchers, strict=True)
    )


def test_with_tfn_a_sub_tree_depends_on_the_rows_of_its_labels_only():
    X, Y = random_problem(rows=200, labels=40)
    tree = even_tree(40, (4,))
    inside = tree.labels[tree.child_ptr[1][0] : tree.child_ptr[1][1]]
    rows = np.flatnonzero(np.asarray(Y[:, inside].sum(axis=1)).ravel())
    whole, part = train_matchers(X, Y, tree), train_matchers(X[rows], Y[rows], tree)
    first = slice(0, whole.matchers[1].weights.indptr[len(inside)])
    np.testing.assert_array_equal(whole.matchers[1].weights.data[first], part.matchers[1].weights.data[first])


def test_man_adds_rows_whose_predicted_parents_are_wrong():
    X, Y = random_problem(rows=200, labels=40)
    tree = even_tree(40, (4,))
    tfn, both = (train_matchers(X, Y, tree, negatives=n, man_beam=2) for n in ("tfn", "tfn+man"))
    assert np.array_equal(
        tfn.matchers[0].weights.data, both.matchers[0].weights.data
    )  # the root has all rows
    assert not np.array_equal(tfn.matchers[1].weights.data, both.matchers[1].weights.data)
    all_parents = train_matchers(X, Y, tree, negatives="tfn+man", man_beam=4)
    everywhere = sp.csr_matrix(np.ones((200, 40), np.float32))
    assert same(all_parents, train_matchers(X, Y, tree, extra_negatives=everywhere))


def test_user_supplied_negatives_train_those_pairs_only():
    X, Y = random_problem(rows=200, labels=40)
    tree = even_tree(40, (4,))
    label = int(tree.labels[3])
    exact = {"tolerance": 1e-4, "max_sweeps": 2000, "threshold": 0.0}
    plain = train_matchers(X, Y, tree, **exact).matchers[1]
    outside = [r for r in range(200) if not Y[r, tree.labels[:10]].nnz]  # rows no label of the node has
    fit = X[outside] @ plain.weights.to_scipy()[3].toarray().ravel()
    taken = np.array(outside)[np.argsort(-fit)[:5]]
    extra = sp.csr_matrix((np.ones(5, np.float32), (taken, [label] * 5)), shape=Y.shape)
    pushed = train_matchers(X, Y, tree, extra_negatives=extra, **exact).matchers[1]
    moved = abs(plain.weights.to_scipy() - pushed.weights.to_scipy()).max(axis=1).toarray().ravel()
    assert moved[3] > 0.05
    assert np.delete(moved, 3).max() < 0.002


def test_a_label_without_positives_says_no():
    X, Y = random_problem(labels=21)
    Y = Y.tolil()
    Y[:, 5] = 0
    model = train_matchers(X, Y.tocsr(), even_tree(21))
    place = model.tree.position_of_label[5]
    margins = X @ model.matchers[0].weights.to_scipy()[place].T.toarray() + model.matchers[0].bias[place]
    assert margins.max() < -0.5


def test_a_row_without_labels_is_a_negative_of_the_root_only():
    X, Y = random_problem(rows=100, labels=30)
    tree = even_tree(30, (3,))
    nothing = sp.vstack([Y, sp.csr_matrix((1, 30), dtype=np.float32)]).tocsr()
    more = sp.vstack([X, X[:1] * 3]).tocsr()
    with_row, without = train_matchers(more, nothing, tree), train_matchers(X, Y, tree)
    assert not np.array_equal(with_row.matchers[0].bias, without.matchers[0].bias)
    np.testing.assert_array_equal(with_row.matchers[1].weights.data, without.matchers[1].weights.data)


def test_one_label_and_one_row_are_enough():
    model = train_matchers(np.ones((1, 2), np.float32), np.ones((1, 1), np.float32), even_tree(1))
    assert model.predict(np.ones((1, 2), np.float32)).labels.tolist() == [[0]]


def test_progress_reaches_the_number_of_matchers():
    X, Y = random_problem(labels=40)
    seen = []
    train_matchers(X, Y, even_tree(40, (4,)), report=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (44, 44)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.zeros((0, 3)), np.zeros((0, 4)), "no rows"),
        (np.ones((2, 3)), np.zeros((2, 4)), "no positive pair"),
        (np.ones((2, 3)), np.ones((3, 4)), "3 rows.*has 2"),
        (np.ones((2, 3)), np.full((2, 4), 7.0), "between 7 and 7.*relevance"),
        (np.ones((2, 3)), -np.ones((2, 4)), "targets lie in 0..1"),
        (np.array([[np.nan, 1], [0, 1]]), np.ones((2, 4)), "NaN"),
        (np.ones((2, 3)), np.ones((2, 5)), "label 4 has entries but is not in the tree"),
    ],
)
def test_input_that_cannot_be_trained_on_is_refused(X, Y, message):
    with pytest.raises(InputError, match=message):
        train_matchers(X, Y, even_tree(4))


def test_relevance_must_belong_to_the_positive_pairs():
    X, Y = random_problem(labels=21)
    with pytest.raises(InputError, match="each positive pair"):
        train_matchers(X, Y, even_tree(21), relevance=sp.eye(120, 21), cost_sensitive=True)
    with pytest.raises(InputError, match="cost_sensitive is off"):
        train_matchers(X, Y, even_tree(21), relevance=Y)


def test_a_model_of_another_tree_is_no_start():
    X, Y = random_problem(labels=21)
    other = train_matchers(X, Y, even_tree(21, seed=5))
    with pytest.raises(InputError, match="another tree"):
        train_matchers(X, Y, even_tree(21), start=other)


def test_all_wrong_settings_are_named_at_once():
    with pytest.raises(ConfigError) as error:
        TrainSettings(loss="l0", tolerance=0, threshold=-1, negatives="none")
    assert len(error.value.problems) == 4
