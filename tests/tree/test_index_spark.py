"""The stage index gives what the library gives, however the rows lie, and says what each node learns from."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from index_run import (
    LABELS,
    context_in,
    corpus,
    indexed,
    label_features,
    row_keys,
    table,
    tree_of,
    write_inputs,
)

from xmcspark.errors import ConfigError, InputError
from xmcspark.labels.features import pifa
from xmcspark.matchers.train import same_tree
from xmcspark.tree import build_spark, index_spark, sampled
from xmcspark.tree.build import build_tree
from xmcspark.tree.index_spark import STAGE
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.readable import node_table
from xmcspark.tree.units import load_units

SMALL = ("tree.branching=4", "tree.max_leaf=5")


def _contents(context):
    nodes = [tuple(row) for row in table(context, "tree_nodes", "member", "node")]
    return nodes, [tuple(row) for row in table(context, "tree_labels", "member", "label")]


@pytest.fixture(scope="module")
def whole(spark, tmp_path_factory):
    """(context, X, Y) of a finished stage, for several tests to look at."""
    X, Y = corpus()
    make = partial(context_in, spark, str(tmp_path_factory.mktemp("runs")))
    return indexed(make, "whole", X, Y, *SMALL), X, Y


def test_everything_equals_the_library_and_no_partitioning_shows(whole, make_context, monkeypatch):
    context, X, Y = whole
    Z = pifa(X, Y)
    labels, written = label_features(context)
    assert labels.tolist() == list(range(LABELS))
    assert np.array_equal(written.indptr, Z.indptr)
    assert np.array_equal(written.indices, Z.indices)
    assert written.data.tobytes() == Z.data.tobytes()
    assert same_tree(tree_of(context), build_tree(Z, branching=4, max_leaf=5))
    _nodes_say_what_rows_say(context, Y, X)
    _units_are_those_of_the_tables(context)

    shuffled = np.random.default_rng(1).permutation(X.shape[0])
    for files, order in ((1, None), (7, shuffled)):
        other = indexed(make_context, f"files-{files}", X, Y, *SMALL, files=files, order=order)
        assert label_features(other)[1].data.tobytes() == Z.data.tobytes()
        assert _contents(other) == _contents(context)

    monkeypatch.setattr(build_spark, "WHOLE_ENTRIES", 10)  # now each sub-tree has a task of its own
    monkeypatch.setattr(build_spark, "_FEWEST_SUB_TREES", 2)
    apart = indexed(make_context, "apart", X, Y, *SMALL)
    assert apart.notes["build_cut"] == 1
    assert same_tree(tree_of(apart), tree_of(context))
    assert _contents(apart) == _contents(context)


def _nodes_say_what_rows_say(context, Y, X):
    tree = tree_of(context)
    nodes = table(context, "tree_nodes", "node")
    expected = node_table(tree).to_pylist()
    assert [{name: row[name] for name in expected[0]} for row in nodes] == expected
    lengths = np.diff(X.indptr)
    number = 0
    for level in range(tree.depth):
        bounds = tree.leaf_range(level)
        for a, b in pairwise(bounds):
            has = np.asarray(Y[:, tree.labels[a:b]].sum(axis=1)).ravel() > 0
            if number == 0:
                has[:] = True
            assert (nodes[number].n_rows, nodes[number].nnz) == (has.sum(), lengths[has].sum())
            _centre_is_right(nodes[number], pifa(X, Y)[tree.labels[a:b]])
            number += 1
    assert number == len(nodes)


def _centre_is_right(row, Z):
    total = np.asarray(Z.astype(np.float64).sum(axis=0)).ravel()
    length = np.linalg.norm(total)
    found = np.zeros_like(total)
    found[row.centre_indices] = row.centre_values
    assert np.allclose(found, total / length if length else total, atol=1e-6)
    assert row.centre_indices == sorted(row.centre_indices)


def _units_are_those_of_the_tables(context):
    units, counts = load_units(context.fs.local_path(context.folder("tree")) + "/0/units")
    nodes = table(context, "tree_nodes", "node")
    assert len(units) > 3
    assert np.bincount([row.sub_tree for row in nodes]).tolist() == [unit.nodes for unit in units]
    assert counts.rows.tolist() == [row.n_rows for row in nodes]
    of_node = {row.node: row for row in nodes}
    for row in table(context, "tree_labels", "label"):
        assert (row.sub_tree, row.path) == (of_node[row.node].sub_tree, of_node[row.node].path)


def test_a_changed_row_changes_the_hashes_of_the_nodes_on_its_path_only(whole, make_context):
    context, X, Y = whole
    row = 3
    hashes = np.arange(X.shape[0]) * 7919
    hashes[row] += 1
    other = indexed(make_context, "changed", X, Y, *SMALL, hashes=hashes)
    before, after = table(context, "tree_nodes", "node"), table(other, "tree_nodes", "node")
    changed = {a.path for a, b in zip(before, after, strict=True) if a.input_hash != b.input_hash}
    leaves = {r.label: r.path for r in table(context, "tree_labels", "label")}
    expected = {""}
    for label in Y.indices[Y.indptr[row] : Y.indptr[row + 1]]:
        steps = leaves[label].split(".")
        expected |= {".".join(steps[:n]) for n in range(1, len(steps) + 1)}
    assert changed == expected
    assert len(set(row_keys(X.shape[0]))) == X.shape[0]


def test_members_have_seeds_of_their_own_and_labels_ids_of_their_own(make_context):
    X, Y = corpus(250)
    ids = np.arange(LABELS) * 3 + 2
    bonsai = ("tree.balanced=false", "tree.max_leaf=10", "tree.branching=6", "tree.max_depth=2")
    for name, overrides, changes in (
        ("members", SMALL, {"branching": 4, "max_leaf": 5}),
        ("wide", bonsai, {"branching": 6, "max_leaf": 10, "balanced": False, "max_depth": 2}),
    ):
        context = indexed(make_context, name, X, Y, "ensemble.members=2", "seed=4", *overrides, ids=ids)
        for member in range(2):
            local = build_tree(pifa(X, Y), **changes, seed=4 + member)
            assert same_tree(tree_of(context, member), LabelTree(local.child_ptr, ids[local.labels]))
        assert {row.member for row in table(context, "tree_labels", "label")} == {0, 1}


def test_label_features_are_kept_only_for_a_task_that_reads_all_of_them(make_context, monkeypatch):
    monkeypatch.setattr(sampled, "_LABELS_PER_SUB_TREE", 4)
    for overrides, read in (
        (("tree.shape=[6, 18]",), True),
        (("tree.shape=[6, 18]", "tree.sample_labels=30"), False),
        (("method=x-transformer",), False),
    ):
        context = make_context(STAGE, *overrides)
        assert (index_spark._folder_for_kept(context, 90) is not None) == read


def test_upper_levels_from_a_sample_are_those_of_the_library(whole, make_context, monkeypatch):
    monkeypatch.setattr(sampled, "_LABELS_PER_SUB_TREE", 4)
    monkeypatch.setattr(index_spark, "block_size_for", lambda ids: 32)  # several files of label features
    _, X, Y = whole
    ids = np.arange(LABELS) * 3 + 2
    how = "tree.shape=[6, 18]", "tree.sample_labels=30", "seed=3", "ensemble.members=2"
    context = indexed(make_context, "sampled", X, Y, *how, files=3, ids=ids)
    assert len(list(context.fs.walk(context.run.table("label_features")))) > 1
    assert context.notes["build_cut"] == 1
    for member in range(2):
        local = build_tree(pifa(X, Y), shape=(6, 18), sample_labels=30, seed=3 + member)
        assert same_tree(tree_of(context, member), LabelTree(local.child_ptr, ids[local.labels]))
    nodes = table(context, "tree_nodes", "member", "node")
    assert len(nodes) == 2 * (1 + 6 + 18)
    assert all(row.centre_indices for row in nodes if row.level < 2)
    assert 13 <= min(context.notes["sub_tree_labels"]) <= max(context.notes["sub_tree_labels"]) <= 17


def test_no_tree_is_one_node(make_context):
    X, Y = corpus(60)
    context = indexed(make_context, "none", X, Y, "method=dismec")
    assert same_tree(tree_of(context), LabelTree.root_only(LABELS))
    (root,) = table(context, "tree_nodes", "node")
    assert (root.path, root.parent, root.n_rows, root.n_labels) == ("", -1, 60, LABELS)


def test_cuts_are_bounded_counted_and_do_not_depend_on_partitions(make_context):
    X, Y = corpus()
    cuts = ("pifa.max_instances=20", "pifa.max_features=5")
    one = indexed(make_context, "one", X, Y, *cuts, files=1)
    many = indexed(make_context, "many", X, Y, *cuts, files=5)
    assert label_features(one)[1].data.tobytes() == label_features(many)[1].data.tobytes()
    assert np.diff(label_features(one)[1].indptr).max() == 5
    over = np.bincount(Y.indices)
    expected = (over - 20)[over > 20].sum()
    assert one.notes["pifa_pairs_cut"] == many.notes["pifa_pairs_cut"]
    assert abs(one.notes["pifa_pairs_cut"] - expected) < 0.2 * expected
    assert one.notes["pifa_features_cut"] > 0


def test_bad_input_is_refused_before_the_work(make_context):
    X, Y = corpus(20)
    context = make_context(STAGE, "tree.sample_labels=10", "tree.balanced=false", run="large")
    write_inputs(context, X, Y)
    with pytest.raises(ConfigError, match=r"tree\.sample_labels is 10, but there are 90 active labels"):
        STAGE.run(context)
    context = make_context(STAGE, "tree.sample_labels=10", *SMALL, run="large")
    with pytest.raises(InputError, match=r"sample_labels is 10: too few to tell 18 sub-trees"):
        STAGE.run(context)
    without = make_context(STAGE, "method=mach", "tree.sample_labels=10", "tree.balanced=false", run="large")
    STAGE.run(without)  # no tree, no sample
    assert without.notes == {"labels": 90, "trees": []}
    context = make_context(STAGE, run="empty")
    write_inputs(context, X, Y)
    labels = context.spark.read.parquet(context.run.table("labels"))
    labels.where("id < 0").write.mode("overwrite").parquet(context.run.table("labels") + "-2")
    context.fs.delete(context.run.table("labels"))
    context.spark.read.parquet(context.run.table("labels") + "-2").write.parquet(context.run.table("labels"))
    with pytest.raises(InputError, match="no active label"):
        STAGE.run(context)
