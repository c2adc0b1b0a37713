"""A label tree is any nested clustering in which each label sits once; everything else is refused."""

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.store.arrays import HEADER
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.readable import label_table, node_table


@st.composite
def nested_assignments(draw):
    n = draw(st.integers(1, 30))
    finest = np.array(draw(st.lists(st.integers(0, 7), min_size=n, max_size=n)))
    coarser = np.array(draw(st.lists(st.integers(0, 3), min_size=8, max_size=8)))
    return [coarser[finest], finest]


def small_tree():
    #        root: a (labels 4, 1) and b (0 | 2, 3)
    return LabelTree(
        (np.array([0, 2]), np.array([0, 1, 3]), np.array([0, 2, 3, 5])), np.array([4, 1, 0, 2, 3])
    )


@given(nested_assignments())
def test_labels_with_equal_assignments_share_a_leaf(assignments):
    tree = LabelTree.from_assignments(assignments)
    assert sorted(tree.labels) == list(range(len(assignments[0])))
    for level, cluster in enumerate(assignments, start=1):
        bounds = tree.leaf_range(level)
        groups = [set(cluster[tree.labels[a:b]]) for a, b in pairwise(bounds)]
        assert [len(group) for group in groups] == [1] * len(np.unique(cluster))


@given(nested_assignments())
def test_cluster_matrices_bring_the_same_tree_back(assignments):
    tree = LabelTree.from_assignments(assignments)
    again = LabelTree.from_cluster_matrices(tree.cluster_matrices())
    assert again.level_sizes == tree.level_sizes
    assert all(np.array_equal(a, b) for a, b in zip(again.child_ptr, tree.child_ptr, strict=True))
    assert np.array_equal(again.labels, tree.labels)


def test_cluster_matrices_of_unordered_nodes_are_sorted_left_to_right():
    upper = sp.csr_matrix(np.ones((2, 1)))
    middle = sp.csr_matrix(np.array([[0, 1], [1, 0], [0, 1]]))  # nodes 0 and 2 under 1, node 1 under 0
    lower = sp.csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    tree = LabelTree.from_cluster_matrices([upper, middle, lower])
    assert tree.level_sizes == (1, 2, 3, 4)
    assert tree.labels.tolist() == [1, 0, 3, 2]
    assert tree.child_ptr[1].tolist() == [0, 1, 3]


def test_root_only_tree_has_every_label_below_the_root():
    tree = LabelTree.root_only(3)
    assert tree.level_sizes == (1, 3)
    assert tree.cluster_matrices()[0].shape == (3, 1)
    assert tree.table().num_rows == 1


def test_position_of_label_inverts_labels():
    tree = LabelTree((np.array([0, 3]),), np.array([5, 0, 2]))
    assert tree.position_of_label.tolist() == [1, -1, 2, -1, -1, 0]


def test_table_paths_select_sub_trees_by_prefix():
    table = node_table(small_tree()).to_pylist()
    assert [row["path"] for row in table] == ["", "0", "1", "0.0", "1.0", "1.1"]
    assert [row["parent"] for row in table] == [-1, 0, 0, 1, 2, 2]
    assert [row["n_labels"] for row in table] == [5, 2, 3, 2, 1, 2]
    labels = label_table(small_tree()).to_pylist()
    assert {row["label"] for row in labels if row["path"].startswith("1")} == {0, 2, 3}
    assert [row["node"] for row in labels] == [3, 3, 4, 5, 5]


def test_paths_are_as_wide_as_the_largest_number_of_their_level():
    tree = LabelTree.from_assignments([np.arange(12)])
    paths = node_table(tree).column("path").to_pylist()[1:]
    assert paths[0] == "00"
    assert paths[-1] == "11"
    assert paths == sorted(paths)


def test_saved_tree_loads_the_same(tmp_path):
    tree = small_tree()
    tree.save(tmp_path / "tree")
    again = LabelTree.load(tmp_path / "tree")
    assert all(np.array_equal(a, b) for a, b in zip(again.child_ptr, tree.child_ptr, strict=True))
    assert np.array_equal(again.labels, tree.labels)


@pytest.mark.parametrize("damage", ["missing", "truncated", "pickle"])
def test_damaged_files_are_named(tmp_path, damage):
    small_tree().save(tmp_path)
    labels = tmp_path / "labels.npy"
    if damage == "missing":
        labels.unlink()
    elif damage == "truncated":
        labels.write_bytes(labels.read_bytes()[:-7])
    else:
        np.save(labels, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"labels\.npy"):
        LabelTree.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "TF-IDF model"}, "TF-IDF model, where a label tree is expected"),
        ({"depth": "3"}, "depth '3' must be a positive number"),
        ({"depth": 10**12}, "child_ptr_3"),
        ({"arrays": {}}, "does not list the array labels"),
    ],
)
def test_foreign_headers_are_refused(tmp_path, change, message):
    small_tree().save(tmp_path)
    path = tmp_path / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=rf"header\.json.*{message}"):
        LabelTree.load(tmp_path)


@pytest.mark.parametrize(
    ("child_ptr", "labels", "message"),
    [
        ([[0, 2]], [0, 0], "2 times"),
        ([[0, 2]], [0, -1], "negative"),
        ([[0, 2]], [0, 1, 2], "leaf positions"),
        ([[0, 2], [0, 2, 2]], [0, 1], "no children"),
        ([[0, 2], [0, 2, 1]], [0], "no children"),
        ([[0, 2], [0, 2]], [0, 1], "3 values"),
        ([[1, 2]], [0], "from 0"),
        ([], [0], "leaf positions"),
        ([[0, 1]], [2**40], "too large"),
        ([[0.0, 1.0]], [0], "integers"),
        ([[0, 1]], [], "non-empty"),
    ],
)
def test_what_is_not_a_tree_is_refused(child_ptr, labels, message):
    with pytest.raises(InputError, match=message):
        LabelTree(tuple(np.array(p) for p in child_ptr), np.array(labels))


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([], "no cluster matrices"),
        ([np.ones((2, 2))], "2 columns"),
        ([np.ones((2, 1)), np.array([[1, 1], [0, 1]])], "exactly one parent"),
        ([np.ones((2, 1)), np.array([[0, 1], [0, 1]])], "no children"),
        ([np.ones((2, 1)), np.array([[1, 0], [0, 0]])], "exactly one parent"),
        ([sp.csr_matrix(([0.0], [0], [0, 1]), shape=(1, 1))], "zeros"),
    ],
)
def test_bad_cluster_matrices_are_refused(matrices, message):
    with pytest.raises(InputError, match=message):
        LabelTree.from_cluster_matrices([sp.csr_matrix(m) for m in matrices])


def test_assignments_that_are_not_nested_are_refused():
    with pytest.raises(InputError, match="several clusters"):
        LabelTree.from_assignments([[0, 0, 1], [0, 1, 0]])
    with pytest.raises(InputError, match="one cluster per label"):
        LabelTree.from_assignments([[0, 0, 1], [0, 1]])
