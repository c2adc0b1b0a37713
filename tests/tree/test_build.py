"""The clustering: balanced, reproducible whatever the machine, and good enough to find planted topics."""

import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import ConfigError, InputError
from xmcspark.sparse.csr import with_dense
from xmcspark.tree.build import build_meta_tree, build_sub_tree, build_tree, build_tree_timed, join_trees
from xmcspark.tree.params import TreeParams
from xmcspark.tree.quality import mean_leaf_cosine


def topical_labels(n=1500, topics=30, features=400, nnz=12, seed=0):
    """Labels whose features come mostly from their topic's twenty."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, topics, n)
    own = rng.integers(0, topics, (topics, 20)) * 13 + np.arange(20)
    rows = np.repeat(np.arange(n), nnz)
    columns = own[topic[rows], rng.integers(0, 20, n * nnz)] % features
    stray = rng.random(n * nnz) < 0.2
    columns[stray] = rng.integers(0, features, stray.sum())
    Z = sp.csr_matrix((rng.random(n * nnz).astype(np.float32) + 0.1, (rows, columns)), shape=(n, features))
    Z.sum_duplicates()
    return Z


def same(a, b):
    return np.array_equal(a.labels, b.labels) and all(
        np.array_equal(p, q) for p, q in zip(a.child_ptr, b.child_ptr, strict=True)
    )


@st.composite
def label_matrices(draw):
    """Small matrices with empty, equal and opposite rows among them."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    kinds = st.sampled_from([0.0, 0.0, 0.0, 1.0, -1.0, 0.5, 1e-8, 3e4])
    return np.array(
        draw(st.lists(st.lists(kinds, min_size=d, max_size=d), min_size=n, max_size=n)), np.float32
    )


@given(label_matrices(), st.integers(2, 5), st.integers(1, 6), st.booleans())
def test_every_label_sits_once_in_a_leaf_of_even_size(Z, branching, max_leaf, sampling):
    tree = build_tree(Z, branching=branching, max_leaf=max_leaf, sampling=sampling)
    assert sorted(tree.labels) == list(range(len(Z)))
    sizes = np.diff(tree.child_ptr[-1])
    assert sizes.max() - sizes.min() <= 1
    assert sizes.max() <= max_leaf
    assert all(np.diff(ptr).max() <= branching for ptr in tree.child_ptr[:-1])


@given(label_matrices(), st.integers(2, 5), st.integers(1, 6))
def test_unbalanced_trees_hold_every_label_once(Z, branching, max_leaf):
    tree = build_tree(Z, balanced=False, branching=branching, max_leaf=max_leaf, max_depth=3)
    assert sorted(tree.labels) == list(range(len(Z)))
    assert tree.depth <= 4


@given(label_matrices(), st.integers(2, 4), st.integers(0, 3))
def test_kind_of_centre_and_order_of_features_do_not_matter(Z, branching, seed):
    trees = [
        build_tree(Z, branching=branching, max_leaf=2, seed=seed, centres=c) for c in ("spa", "dense", "auto")
    ]
    trees.append(build_tree(Z[:, ::-1].copy(), branching=branching, max_leaf=2, seed=seed))
    assert all(same(trees[0], other) for other in trees[1:])


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("sampling", [True, False])
def test_the_tree_does_not_depend_on_the_number_of_threads(balanced, sampling):
    Z = topical_labels(9000)
    wanted = build_tree(Z, balanced=balanced, sampling=sampling, max_leaf=20)
    for threads in (2, 3, 8):
        assert same(wanted, build_tree(Z, balanced=balanced, sampling=sampling, max_leaf=20, threads=threads))


_DIGEST = """
import hashlib, sys
sys.path.insert(0, {folder!r})
from test_build import digest
print(digest())
"""


def digest():
    Z = topical_labels()
    trees = [build_tree(Z, max_leaf=10), build_tree(Z, max_leaf=10, balanced=False, branching=20)]
    return hashlib.sha256(b"".join(tree.labels.tobytes() for tree in trees)).hexdigest()


@pytest.mark.parametrize("isa", ["generic", "avx2"])
def test_the_tree_does_not_depend_on_the_instruction_set(isa):
    code = _DIGEST.format(folder=os.path.dirname(__file__))
    environment = {**os.environ, "XMCSPARK_ISA": isa}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == digest()


def test_seeds_give_different_trees_and_equal_seeds_the_same():
    Z = topical_labels()
    assert same(build_tree(Z, seed=1), build_tree(Z, seed=1))
    assert not same(build_tree(Z, seed=1), build_tree(Z, seed=2))


@pytest.mark.parametrize("sampling", [True, False])
@pytest.mark.parametrize("sizes", [(4, 16, 64), (3, 7, 50)])
def test_meta_tree_and_sub_trees_built_alone_are_the_whole_tree(sizes, sampling):
    Z = topical_labels(1237)
    params = TreeParams(shape=sizes, sampling=sampling, seed=3)
    whole = build_tree(Z, params)
    for level in (0, 1, 2, 3):
        meta = build_meta_tree(Z, level, params)
        parts = []
        for node, (a, b) in enumerate(pairwise(meta.child_ptr[-1])):
            labels = np.sort(meta.labels[a:b])
            parts.append(build_sub_tree(Z[labels], labels, sizes, level, node, params))
        assert same(join_trees(meta, parts), whole)


def test_scaling_a_label_does_not_move_it():
    Z = topical_labels()
    scale = np.random.default_rng(1).choice([0.25, 1.0, 8.0], Z.shape[0]).astype(np.float32)
    assert same(build_tree(Z), build_tree(sp.diags(scale) @ Z))


def test_planted_topics_are_found():
    Z = sp.block_diag([np.ones((25, 4)) + np.eye(25, 4)] * 8).tocsr()
    shuffle = np.random.default_rng(0).permutation(200)
    tree = build_tree(Z[shuffle], shape=(8,))
    topics = (shuffle // 25)[tree.labels].reshape(8, 25)
    assert (topics == topics[:, :1]).all()


def test_topics_of_unequal_size_are_found_without_balance():
    sizes = [5, 10, 40, 100]
    Z = sp.block_diag([np.ones((n, 3)) for n in sizes]).tocsr()
    tree = build_tree(Z, balanced=False, branching=40, max_leaf=100)
    leaf_of = np.repeat(np.arange(len(tree.child_ptr[-1]) - 1), np.diff(tree.child_ptr[-1]))
    topic = np.repeat(np.arange(4), sizes)[tree.labels]
    assert all(len(set(topic[leaf_of == leaf])) == 1 for leaf in set(leaf_of))


def signed_topics(topics=6, each=20, width=24, seed=0):
    """(Z, topic of each label): unit vectors near random directions and near the opposites of these."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(topics // 2, width))
    centre = np.concatenate([centre, -centre])
    topic = rng.permutation(np.repeat(np.arange(topics), each))
    Z = centre[topic] + 0.1 * rng.normal(size=(len(topic), width))
    return (Z / np.linalg.norm(Z, axis=1, keepdims=True)).astype(np.float32), topic


def test_opposite_directions_are_different_topics():
    Z, topic = signed_topics()
    tree = build_tree(Z, shape=(6,), iterations=20)
    found = topic[tree.labels].reshape(6, 20)
    halves = [
        len(set(np.sign(Z[tree.labels[a:b]] @ Z[tree.labels[a]]))) for a, b in pairwise(tree.child_ptr[-1])
    ]
    assert halves == [1] * 6
    assert (found == found[:, :1]).mean() > 0.6


def test_without_balance_a_label_goes_to_the_nearest_centre_even_if_all_point_away():
    first, second, away = [[1.0, 0.0]] * 25, [[0.0, 1.0]] * 35, [[-1.0, -0.2]]
    Z = np.array([*first, *second, *away], np.float32)
    tree = build_tree(Z, balanced=False, branching=2, max_leaf=40, max_depth=1)
    clusters = sorted(sorted(tree.labels[a:b].tolist()) for a, b in pairwise(tree.child_ptr[-1]))
    assert clusters == [list(range(25)), list(range(25, 61))]  # the second is larger, and nearer


def test_a_dense_block_of_label_features_is_like_other_columns():
    Z, signed = topical_labels(300), signed_topics(6, 50)[0]
    block = with_dense(Z, signed)
    for balanced in (True, False):
        tree = build_tree(block, max_leaf=20, balanced=balanced)
        assert same(tree, build_tree(block.expanded().to_scipy(), max_leaf=20, balanced=balanced))
        assert not same(tree, build_tree(Z, max_leaf=20, balanced=balanced))
        assert mean_leaf_cosine(block, tree) == mean_leaf_cosine(block.expanded(), tree)


def test_sampling_keeps_most_of_the_quality():
    Z = topical_labels(4000)
    full = mean_leaf_cosine(Z, build_tree(Z, max_leaf=50))
    assert mean_leaf_cosine(Z, build_tree(Z, max_leaf=50, sampling=True)) > 0.95 * full


def test_clusters_beat_chance_by_far():
    Z = topical_labels(4000)
    tree = build_tree(Z, max_leaf=50)
    random = type(tree)(tree.child_ptr, np.random.default_rng(0).permutation(4000).astype(np.int32))
    assert mean_leaf_cosine(Z, tree) > 1.3 * mean_leaf_cosine(Z, random)


def test_mean_leaf_cosine_is_what_it_says():
    Z = topical_labels(200).toarray()
    Z[7] = 0
    tree = build_tree(Z, max_leaf=30)
    unit = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-30)
    cosines = []
    for a, b in pairwise(tree.child_ptr[-1]):
        centre = unit[tree.labels[a:b]].sum(axis=0)
        cosines.extend(unit[tree.labels[a:b]] @ centre / np.linalg.norm(centre))
    assert mean_leaf_cosine(Z, tree) == pytest.approx(np.mean(cosines), rel=1e-5)


def test_sums_beyond_32_bits_are_right():
    # 70,000 labels on one feature: 70,000 x 2^15 passes 2^31.
    n = 70_000
    second = np.zeros(n, np.float32)
    second[::2] = 0.3
    Z = sp.csr_matrix(np.stack([np.ones(n, np.float32), second], axis=1))
    for threads in (1, 2):
        tree = build_tree(Z, shape=(2,), threads=threads)
        assert len(set(tree.labels[: n // 2] % 2)) == 1


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 150])
def test_equal_and_empty_labels_are_divided_evenly(n, balanced):
    for Z in (
        np.ones((n, 3), np.float32),
        sp.csr_matrix((n, 3), dtype=np.float32),
        np.empty((n, 0), np.float32),
    ):
        tree = build_tree(Z, branching=4, max_leaf=10, balanced=balanced)
        assert sorted(tree.labels) == list(range(n))
        assert np.diff(tree.child_ptr[-1]).max() <= 10


def test_times_are_reported_for_each_level():
    _, levels = build_tree_timed(topical_labels(), shape=(4, 16), centres="auto", spa_gamma=0.5)
    assert [(level.level, level.clusters, level.centres) for level in levels] == [
        (1, 4, "dense"),
        (2, 16, "spa"),
    ]
    assert all(level.cpu_seconds > 0 and level.passes >= 2 and level.centre_length > 0 for level in levels)


def test_dense_centres_above_gamma_only():
    params = TreeParams(centres="auto", spa_alpha=0.1, spa_gamma=0.05)
    # eta = 0.1 * 10,000 / (clusters * 1,000): 0.0625 and 0.04
    assert params.dense_centres(16, 10_000, 1_000)
    assert not params.dense_centres(25, 10_000, 1_000)


def test_sample_share_grows_to_all_at_the_last_level():
    params = TreeParams(sampling=True, sampling_b=1.0)
    assert [params.sample_share(t, 3) for t in (1, 2, 3)] == [0.5, 0.75, 1.0]


def test_all_wrong_parameters_are_reported_at_once():
    with pytest.raises(ConfigError) as error:
        TreeParams(branching=1, max_leaf=0, iterations=0, tolerance=2.0, seed=-1, threads=0, centres="sparse")
    assert len(error.value.problems) == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Z: build_tree(Z[:0]), "no rows"),
        (lambda Z: build_tree(Z, shape=(8, 4)), "at least as many"),
        (lambda Z: build_tree(Z, shape=(4, 2000)), "only 1500 labels"),
        (lambda Z: build_meta_tree(Z, 9), "levels of clusters"),
        (lambda Z: build_sub_tree(Z, np.arange(3), (4,), 1, 0), "3"),
        (lambda Z: build_sub_tree(Z, np.arange(1500)[::-1], (4,), 1, 0), "increasing"),
        (lambda Z: build_sub_tree(Z, np.arange(1500), (4,), 1, 4), "nodes 0 to 3"),
        (lambda Z: build_sub_tree(Z[:2], np.arange(2), (4, 64), 1, 0), "16 leaf clusters"),
        (lambda Z: join_trees(build_meta_tree(Z, 1), []), "sub-trees"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(topical_labels())


def test_values_that_are_not_finite_are_refused():
    Z = topical_labels()
    Z.data[3] = np.nan
    with pytest.raises(InputError, match="NaN"):
        build_tree(Z)
