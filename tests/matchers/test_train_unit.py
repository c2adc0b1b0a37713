"""Units trained one by one give the model that is trained at once, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from small_problem import even_tree, random_problem
from tree_units import node_counts, units_of

from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.packed_model import packed_level
from xmcspark.matchers.packed_rows import TrainingRows, packed_rows, unpacked_rows
from xmcspark.matchers.routing import Router
from xmcspark.matchers.row_selection import row_cap
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import by_position, check_targets, lift, row_totals
from xmcspark.matchers.train import train_matchers
from xmcspark.matchers.train_unit import train_unit
from xmcspark.matchers.trainer import in_one_node
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.text.feature_table import FeatureSpace
from xmcspark.tree.unit_levels import units_by_level
from xmcspark.tree.units import node_starts


def problem(rows=260, labels=83, soft=False):
    """(X, Y, relevance, keys, hashes): rows in the order of training."""
    X, Y = random_problem(rows=rows, labels=labels, soft=soft)
    Y.data[Y.indptr[7] : Y.indptr[8]] = 0  # a row without labels
    Y.eliminate_zeros()
    rng = np.random.default_rng(4)
    R = Y.copy()
    R.data = rng.uniform(0.1, 9, Y.nnz).astype(np.float32)
    keys = np.sort(rng.integers(-(2**63), 2**63 - 1, rows, dtype=np.int64))
    keys[3] = keys[4]  # then the hashes decide
    return X, Y, R, keys, np.arange(rows, dtype=np.int64)


def routed_rows(tree, units, X, Y, R, keys, hashes, caps, seed, parts=3, reached=None):
    """{unit: its rows}, after a journey in `parts` shuffled parts. `reached`: nodes that each row is sent to."""
    order = np.random.default_rng(1).permutation(X.shape[0])
    router, got = Router(tree, units, caps, seed), {unit.unit: [] for unit in units}
    widths = {}
    for part in np.array_split(order, parts):
        targets = by_position(check_targets(Y[part], len(part)), tree)
        costs = None if R is None else by_position(as_csr(R[part]), tree)
        rows = TrainingRows(
            keys[part],
            hashes[part],
            as_csr(X[part]),
            targets,
            None if costs is None else costs.data,
            None if costs is None else row_totals(costs),
            None if reached is None else as_csr(reached.to_scipy()[part]),
        )
        for unit, its in router.routed(rows):
            widths[unit.unit] = its.Y.shape[1]
            got[unit.unit] += list(packed_rows(its, 2000))
    nodes = {unit.unit: None if reached is None else unit.nodes for unit in units}
    return {
        unit: unpacked_rows(
            payloads[::-1], FeatureSpace(X.shape[1]), widths[unit], R is not None, nodes[unit]
        )
        for unit, payloads in got.items()
        if payloads
    }


def assembled(tree, trained, n_features):
    """Matchers of all levels from those of the units: ({child: (indices, data, bias)}, positives) a level."""
    levels = [({}, {}) for _ in range(tree.depth)]
    for unit in trained:
        for part in unit.levels:
            W = part.matchers.weights
            for row, child in enumerate(part.children.tolist()):
                at = slice(W.indptr[row], W.indptr[row + 1])
                levels[part.level][0][child] = (W.indices[at], W.data[at], part.matchers.bias[row])
                levels[part.level][1][child] = int(part.positives[row])
            starts = np.searchsorted(tree.child_ptr[part.level], part.children, side="right") - 1
            np.testing.assert_array_equal(starts, part.nodes)
    return levels


def assert_same(tree, levels, model):
    for t, matchers in enumerate(model.matchers):
        assert sorted(levels[t][0]) == list(range(tree.level_sizes[t + 1]))
        for child, (indices, data, bias) in levels[t][0].items():
            at = slice(matchers.weights.indptr[child], matchers.weights.indptr[child + 1])
            np.testing.assert_array_equal(indices, matchers.weights.indices[at])
            np.testing.assert_array_equal(data, matchers.weights.data[at])
            assert bias == matchers.bias[child]


TREES = {"deep": (3, 14), "two levels": (9,), "no tree": ()}


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("shape", TREES)
def test_units_give_the_model_that_is_trained_at_once(shape, costs, loss):
    X, Y, R, keys, hashes = problem()
    tree = even_tree(83, TREES[shape])
    settings = TrainSettings(loss=loss, cost_sensitive=costs, alpha=0.7, seed=11)
    R = R if costs else None
    whole = train_matchers(X, Y, tree, settings, relevance=R)
    units = units_of(tree, X, Y)
    assert shape == "no tree" or len(units) > 5
    rows = routed_rows(tree, units, X, Y, R, keys, hashes, {}, 11)
    trained = [train_unit(rows[unit.unit], tree, unit, settings, caps={}) for unit in units]
    assert_same(tree, assembled(tree, trained, X.shape[1]), whole)


@pytest.mark.parametrize("soft", [False, True])
def test_a_node_can_be_trained_in_pieces(soft):
    X, Y, _, keys, hashes = problem(labels=150, soft=soft)
    tree = even_tree(150)
    settings = TrainSettings(seed=3)
    (unit,) = units_of(tree, X, Y)
    rows = routed_rows(tree, [unit], X, Y, None, keys, hashes, {}, 3)[0]
    trained = [train_unit(rows, tree, unit, settings, caps={}, piece=(i, 3)) for i in range(3)]
    assert all(len(piece.levels[0].children) for piece in trained)
    assert_same(tree, assembled(tree, trained, X.shape[1]), train_matchers(X, Y, tree, settings))


@pytest.mark.parametrize("shape", TREES)
def test_units_leave_out_the_rows_that_the_whole_leaves_out(shape):
    X, Y, _, keys, hashes = problem(rows=900)
    tree = even_tree(83, TREES[shape])
    settings = TrainSettings(seed=5, max_rows=200)
    whole = train_matchers(X, Y, tree, settings, row_keys=keys)
    uncut = train_matchers(X, Y, tree, replace(settings, max_rows=10**9))
    assert not np.array_equal(whole.matchers[0].bias, uncut.matchers[0].bias)
    caps = caps_of(tree, X, Y, 200)
    assert 0 in caps
    units = units_of(tree, X, Y)
    rows = routed_rows(tree, units, X, Y, None, keys, hashes, caps, 5)
    trained = [train_unit(rows[unit.unit], tree, unit, settings, caps=caps) for unit in units]
    levels = assembled(tree, trained, X.shape[1])
    assert_same(tree, levels, whole)
    assert len(rows[0]) <= 200 or units[0].nodes > 1  # what one node leaves out did not travel
    counts = np.bincount(by_position(as_csr(Y), tree).indices, minlength=83)
    assert [levels[-1][1][child] for child in range(83)] == counts.tolist()


def caps_of(tree, X, Y, max_rows):
    """By node, counted over all rows."""
    starts, caps = node_starts(tree), {}
    Y = by_position(as_csr(Y), tree)
    levels = [Y]
    for ptr in reversed(tree.child_ptr[1:]):
        levels.insert(0, lift(levels[0], ptr, np.maximum))
    for t, ptr in enumerate(tree.child_ptr):
        positives = np.bincount(levels[t].indices, minlength=ptr[-1])
        rows = [X.shape[0]] if t == 0 else np.bincount(levels[t - 1].indices, minlength=len(ptr) - 1)
        for node, count in enumerate(rows):
            cap = row_cap(int(count), positives[ptr[node] : ptr[node + 1]], max_rows)
            if cap is not None:
                caps[int(starts[t]) + node] = cap
    return caps


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("negatives", ["man", "tfn+man"])
@pytest.mark.parametrize(("shape", "max_rows"), [((3, 14), 10**9), ((3, 14), 200), ((9,), 10**9)])
def test_units_of_one_level_give_the_model_with_matcher_aware_negatives(shape, max_rows, negatives, costs):
    X, Y, R, keys, hashes = problem(rows=500)
    R = R if costs else None
    tree = even_tree(83, shape)
    settings = TrainSettings(negatives=negatives, man_beam=2, seed=5, max_rows=max_rows, cost_sensitive=costs)
    whole = train_matchers(X, Y, tree, settings, relevance=R, row_keys=keys)
    assert not all(
        np.array_equal(one.bias, other.bias)
        for one, other in zip(whole.matchers, train_matchers(X, Y, tree).matchers, strict=True)
    )
    counts = node_counts(tree, X, Y)
    trained = []
    for level, units in enumerate(units_by_level(tree, units_of(tree, X, Y), counts, max_rows)):
        reached = reached_nodes(whole, X, level, beam=2)
        caps = reached_caps(tree, Y, level, reached, max_rows)
        assert bool(caps) == (max_rows == 200)
        rows = routed_rows(tree, units, X, Y, R, keys, hashes, caps, 5, reached=reached)
        for unit in units:
            if unit.nodes == 1:  # also in pieces
                pieces = [
                    train_unit(rows[unit.unit], tree, unit, settings, caps=caps, piece=(i, 2)) for i in (0, 1)
                ]
                trained += pieces
            else:
                trained.append(train_unit(rows[unit.unit], tree, unit, settings, caps=caps))
    assert_same(tree, assembled(tree, trained, X.shape[1]), whole)


def reached_nodes(model, X, level, beam):
    """Nodes of a level that beam search opens with the matchers above it."""
    if level == 0:
        return in_one_node(X.shape[0])
    above = TreeModel(model.tree.upper(level), model.matchers[:level], model.n_features, model.scoring)
    return above.predict(X, beam=beam, top_k=beam).to_csr(above.tree.n_labels)


def reached_caps(tree, Y, level, reached, max_rows):
    """By node of a level, over rows that belong to a node or reach it."""
    targets = by_position(as_csr(Y), tree)
    for ptr in reversed(tree.child_ptr[level + 1 :]):
        targets = lift(targets, ptr, np.maximum)
    ptr, start, caps = tree.child_ptr[level], int(node_starts(tree)[level]), {}
    positives = np.bincount(targets.indices, minlength=ptr[-1])
    either = (lift(targets, ptr, np.maximum).to_scipy() > 0) + (reached.to_scipy() != 0)
    for node, count in enumerate(np.asarray((either > 0).sum(axis=0)).ravel()):
        cap = row_cap(int(count), positives[ptr[node] : ptr[node + 1]], max_rows)
        if cap is not None:
            caps[start + node] = cap
    return caps


def test_a_unit_whose_rows_are_all_gone_says_no():
    X, Y, _, keys, hashes = problem()
    tree = even_tree(83, (9,))
    unit = units_of(tree, X, Y)[3]
    empty = Csr(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), (0, X.shape[1]))
    width = int(np.diff(tree.child_ptr[1])[unit.node - 1])
    targets = Csr(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), (0, width))
    trained = train_unit(
        TrainingRows(keys[:0], hashes[:0], empty, targets), tree, unit, TrainSettings(), caps={}
    )
    assert trained.levels[0].matchers.weights.nnz == 0
    assert not trained.levels[0].positives.any()


def test_a_unit_without_rows_has_weights_of_embeddings_as_the_others_have():
    X, Y, *_ = problem()
    tree = even_tree(83, (9,))
    unit = units_of(tree, X, Y)[3]
    width = int(np.diff(tree.child_ptr[1])[unit.node - 1])
    rows = unpacked_rows([], FeatureSpace(X.shape[1], 5), width, False)
    (level,) = train_unit(rows, tree, unit, TrainSettings(), caps={}).levels
    assert np.array_equal(level.matchers.weights.dense, np.zeros((width, 5)))
    assert packed_level(level).dense.size == width * 5
