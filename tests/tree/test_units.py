"""Units cover every node once, are as small as they can be, and do not depend on anything but tree and counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index_run import corpus

from xmcspark.errors import InputError
from xmcspark.labels.features import pifa
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.node_inputs import NodeInputs, add_rows, input_hashes
from xmcspark.tree.paths import LabelPaths
from xmcspark.tree.unit_levels import reached_counts, units_by_level
from xmcspark.tree.units import (
    NodeCounts,
    load_units,
    node_loads,
    node_starts,
    plan_units,
    save_units,
    unit_bytes,
    units_of_nodes,
)


def _tree(labels: int, branching: int, max_leaf: int) -> LabelTree:
    Z = np.random.default_rng(labels).random((labels, 8), np.float32)
    return build_tree(Z, branching=branching, max_leaf=max_leaf)


def _counts(tree: LabelTree, seed: int, skew: float) -> NodeCounts:
    """As if each label had rows of its own, some labels many."""
    rng = np.random.default_rng(seed)
    of_label = np.ceil(rng.pareto(skew, tree.n_labels) * 5).astype(np.int64)
    rows = np.concatenate([np.add.reduceat(of_label, tree.leaf_range(t)[:-1]) for t in range(tree.depth)])
    return NodeCounts(rows, rows * 9, rows)


@given(
    labels=st.integers(1, 300),
    branching=st.integers(2, 9),
    max_leaf=st.integers(1, 20),
    parts=st.integers(1, 40),
    seed=st.integers(0, 5),
    skew=st.sampled_from([0.4, 1.0, 3.0]),
)
def test_units_cover_every_node_once_and_respect_the_bound(labels, branching, max_leaf, parts, seed, skew):
    tree = _tree(labels, branching, max_leaf)
    counts = _counts(tree, seed, skew)
    loads = node_loads(tree, counts)
    units = plan_units(tree, counts, parts)
    owner = units_of_nodes(tree, units)
    parents = tree.table()["parent"].to_pylist()
    assert np.bincount(owner, minlength=len(units)).tolist() == [unit.nodes for unit in units]
    assert [unit.unit for unit in units] == list(range(len(units)))
    assert [unit.node for unit in units] == sorted(unit.node for unit in units)
    for unit in units:
        assert unit.load == loads[owner == unit.unit].sum()
        assert unit.rows == counts.rows[unit.node]
        divisible = unit.level < tree.depth - 1
        assert unit.load * parts <= loads.sum() or not unit.whole or not divisible
        if not unit.whole:  # divided only where it had to be
            below = [u.load for u in units if _is_below(parents, u.node, unit.node)]
            assert (unit.load + sum(below)) * parts > loads.sum()
    assert sum(unit.matchers for unit in units) == sum(int(ptr[-1]) for ptr in tree.child_ptr)


def test_units_cut_by_level_cover_every_node_once_with_the_rows_of_the_beam():
    tree = _tree(300, 4, 5)
    counts = _counts(tree, 1, 1.0)
    units = plan_units(tree, counts, 12)
    assert any(unit.whole and unit.nodes > 5 for unit in units)
    more = reached_counts(tree, counts, beam=4)
    owner, seen = units_of_nodes(tree, units), []
    for level, parts in enumerate(units_by_level(tree, units, more, max_rows=0)):
        for part in parts:
            nodes = np.arange(part.node, part.node + part.nodes)
            assert (owner[nodes] == part.unit).all()
            assert (part.level, part.load) == (level, node_loads(tree, more)[nodes].sum())
            assert counts.rows[nodes].sum() <= part.rows <= counts.rows[0]
            seen += nodes.tolist()
    assert sorted(seen) == list(range(len(owner)))
    # On the leaves' level a row reaches 4 nodes besides its own.
    leaves = slice(int(node_starts(tree)[-2]), None)
    assert more.rows[leaves].sum() == pytest.approx(counts.rows[leaves].sum() + 4 * counts.rows[0], rel=0.02)
    assert more.rows[0] == counts.rows[0]


def _is_below(parents: list[int], node: int, top: int) -> bool:
    while node > top:
        node = parents[node]
        if node == top:
            return True
    return False


def test_one_part_is_one_unit():
    tree = _tree(100, 4, 5)
    (unit,) = plan_units(tree, _counts(tree, 0, 1.0), 1)
    assert (unit.node, unit.whole, unit.nodes) == (0, True, sum(tree.level_sizes[:-1]))


def test_a_node_that_trains_on_fewer_rows_costs_less_but_a_sub_tree_needs_all_rows():
    tree = _tree(200, 4, 5)
    counts = _counts(tree, 0, 1.0)
    limit = int(counts.rows[0] // 10)
    free, limited = plan_units(tree, counts, 8), plan_units(tree, counts, 8, max_rows=limit)
    assert limited[0].rows == limit
    assert limited[0].load < free[0].load / 5
    whole = plan_units(tree, counts, 1, max_rows=limit)[0]
    assert whole.rows == counts.rows[0]


def test_units_come_back_from_files(tmp_path):
    tree = _tree(100, 4, 5)
    counts = _counts(tree, 1, 1.0)
    units = plan_units(tree, counts, 16)
    save_units(units, counts, tmp_path)
    loaded, same = load_units(tmp_path)
    assert loaded == units
    assert all(isinstance(unit.whole, bool) for unit in loaded)
    assert np.array_equal(same.nnz, counts.nnz)


def test_memory_grows_with_rows_and_threads():
    tree = _tree(100, 4, 5)
    counts = _counts(tree, 1, 1.0)
    many = NodeCounts(counts.rows * 10, counts.nnz * 10, counts.targets * 10)
    (small,), (large,) = plan_units(tree, counts, 1), plan_units(tree, many, 1)
    assert unit_bytes(large, 1000, tree.depth) > 5 * unit_bytes(small, 1000, tree.depth)
    assert unit_bytes(small, 1000, tree.depth, threads=2) > unit_bytes(small, 1000, tree.depth)
    assert unit_bytes(small, 1000, tree.depth) > small.nnz * 16


@pytest.mark.parametrize("parts", [0, -1])
def test_wrong_arguments_are_refused(parts):
    tree = _tree(20, 4, 5)
    counts = _counts(tree, 1, 1.0)
    with pytest.raises(InputError, match="at least 1"):
        plan_units(tree, counts, parts)
    with pytest.raises(InputError, match="nodes, the counts"):
        plan_units(tree, NodeCounts(counts.rows[1:], counts.nnz, counts.targets), 4)


def _inputs(paths, Y, keys, hashes, lengths, parts):
    total = NodeInputs.zeros(paths.nodes)
    for rows in parts:
        inputs = NodeInputs.zeros(paths.nodes)
        y = Y[rows]
        add_rows(inputs, paths, y.indptr, y.indices, keys[rows], hashes[rows], lengths[rows])
        total.add(0, list(inputs.arrays))
    return total


def test_node_inputs_are_the_same_for_any_parts_and_order():
    X, Y = corpus()
    paths = LabelPaths.of(build_tree(pifa(X, Y), branching=4, max_leaf=5))
    rng = np.random.default_rng(0)
    keys, hashes = rng.integers(-(2**62), 2**62, (2, X.shape[0]))
    lengths = np.diff(X.indptr)
    rows = np.arange(X.shape[0])
    one = _inputs(paths, Y, keys, hashes, lengths, [rows])
    many = _inputs(paths, Y, keys, hashes, lengths, [*np.array_split(rng.permutation(rows), 9), rows[:0]])
    for a, b in zip(one.arrays, many.arrays, strict=True):
        assert np.array_equal(a, b)
    assert one.rows[0] == len(rows)
    assert one.targets[paths.starts[-2] :].sum() == Y.nnz


def test_labels_outside_the_tree_do_not_count():
    X, Y = corpus()
    tree = LabelTree.from_assignments([np.arange(40) // 8], np.arange(40))
    paths, lengths = LabelPaths.of(tree), np.diff(X.indptr)
    keys = np.arange(X.shape[0])
    with_others = _inputs(paths, Y, keys, keys, lengths, [keys])
    without = _inputs(paths, Y[:, :40].tocsr(), keys, keys, lengths, [keys])
    for a, b in zip(with_others.arrays, without.arrays, strict=True):
        assert np.array_equal(a, b)


def test_a_new_child_changes_the_hash_of_its_node_although_no_row_has_it():
    X, Y = corpus()
    lengths, keys = np.diff(X.indptr), np.arange(X.shape[0])
    clusters = np.arange(40) // 8
    small = LabelPaths.of(LabelTree.from_assignments([clusters], np.arange(40)))
    large = LabelPaths.of(LabelTree.from_assignments([np.append(clusters, 2)], np.append(np.arange(40), 500)))
    Y = Y[:, :40].tocsr()
    before, after = (input_hashes(_inputs(p, Y, keys, keys, lengths, [keys]), p) for p in (small, large))
    assert np.flatnonzero(before != after).tolist() == [3]  # the root is 0, its cluster 2 is 3
