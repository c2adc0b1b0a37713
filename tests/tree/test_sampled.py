"""Trees whose upper levels come from a sample of the labels: balanced, nearly as good, the same from any parts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from test_build import same, topical_labels

from xmcspark.corpus.synthetic import generate
from xmcspark.errors import InputError
from xmcspark.labels.features import pifa
from xmcspark.matchers.train import train_matchers
from xmcspark.quality.metrics import LabelProfile, evaluate
from xmcspark.sparse.csr import as_csr
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree import sampled
from xmcspark.tree.build import build_tree, cluster_counts, cut_for_sample, sampled_meta_tree
from xmcspark.tree.params import TreeParams
from xmcspark.tree.quality import mean_leaf_cosine
from xmcspark.tree.sampled import in_sample
from xmcspark.tree.shape import Shape
from xmcspark.tree.splits import Cuts, Walk, cut_of, cuts_by_split, cuts_of_round, on_grid, splits_between

SMALL = TreeParams(branching=4, max_leaf=20, sample_labels=800, seed=2)  # 13 sub-trees of 4000 labels


def test_a_sample_of_all_labels_changes_nothing():
    Z = topical_labels()
    assert same(build_tree(Z, sample_labels=1500), build_tree(Z))
    assert not same(build_tree(Z, sample_labels=1499), build_tree(Z))


def test_sub_trees_are_equal_within_a_tenth_and_their_leaves_within_one_label():
    Z = topical_labels(4000)
    tree, cut = build_tree(Z, SMALL), cut_for_sample(4000, SMALL)
    assert (cut.level, cut.sub_trees) == (2, 13)
    assert sorted(tree.labels) == list(range(4000))
    assert tree.level_sizes == (1, *cluster_counts(4000, SMALL), 4000)
    bounds = tree.leaf_range(cut.level)
    leaves = np.diff(tree.child_ptr[-1])
    first = np.searchsorted(np.concatenate([[0], np.cumsum(leaves)]), bounds)
    for node in range(13):
        inside = leaves[first[node] : first[node + 1]]
        assert inside.max() - inside.min() <= 1
        assert abs(inside.sum() / (4000 * len(inside) / 200) - 1) < 0.1


def test_the_tree_gathers_like_labels_as_the_one_from_all_labels_does():
    Z = topical_labels(4000)
    full = mean_leaf_cosine(Z, build_tree(Z, SMALL, sample_labels=4000))
    assert mean_leaf_cosine(Z, build_tree(Z, SMALL)) > 0.97 * full


def test_a_model_over_it_is_about_as_good():
    data = generate(8000, 3000, seed=1)
    tfidf = Tfidf()
    X, Y = tfidf.fit_transform(data.train.texts), data.train.Y
    Z, queries, profile = pifa(X, Y), tfidf.transform(data.test.texts), LabelProfile.from_training(Y)
    found = []
    for sample in (3000, 600):
        model = train_matchers(X, Y, build_tree(Z, max_leaf=24, sample_labels=sample), threads=2)
        rows = evaluate(model.predict(queries, top_k=5), data.test.Y, profile, ks=(5,))
        found.append(next(row.value for row in rows if (row.metric, row.bin) == ("R", "all")))
    assert found[1] > found[0] - 0.02


def test_the_tree_does_not_depend_on_threads_and_does_on_the_seed():
    Z = topical_labels(4000)
    tree = build_tree(Z, SMALL)
    assert same(tree, build_tree(Z, SMALL, threads=3))
    assert not same(tree, build_tree(Z, SMALL, seed=3))
    assert not same(tree, build_tree(Z, SMALL, sampling=True))


def splits_of(Z, params=SMALL):
    cut, every = cut_for_sample(Z.shape[0], params), np.arange(Z.shape[0])
    chosen = np.flatnonzero(in_sample(every, cut, params.seed))
    return sampled_meta_tree(as_csr(Z[chosen]), chosen, cut, params)[1]


def test_labels_in_any_parts_and_order_give_the_same_cuts_and_go_the_same_ways():
    Z = topical_labels(4000)
    splits = splits_of(Z)
    assert splits.rounds == 4
    whole, cuts = Walk(splits, as_csr(Z), np.arange(4000), 2), Cuts.none()
    parts = [np.sort(part) for part in np.array_split(np.random.default_rng(0).permutation(4000), 7)]
    for number in range(splits.rounds):
        counts = [Walk(splits, as_csr(Z[part]), part, 2).follow(cuts).counts() for part in parts]
        together = [np.concatenate(arrays) for arrays in zip(*counts, strict=True)]
        found = cuts_by_split(splits, *together)
        assert found == cuts_by_split(splits, *whole.counts())
        cuts = cuts.and_then(cuts_of_round(splits, number, found))
        whole.follow(cuts)
    for part in parts:
        at = Walk(splits, as_csr(Z[part]), part, 2).follow(cuts).at
        np.testing.assert_array_equal(at, whole.at[part])
    assert set(~whole.at) == set(range(13))


def test_the_left_side_is_nearer_to_the_left_centre():
    Z = topical_labels(2000)
    node = np.arange(2000) % 3
    splits = splits_between(as_csr(Z), node, Shape.whole((3,)), 1)
    unit = sp.diags(1 / np.sqrt(Z.multiply(Z).sum(axis=1)).A1) @ Z
    left, right = (np.asarray(unit[side].sum(axis=0)).ravel() for side in (node < 1, node >= 1))
    lean = unit @ (left / np.linalg.norm(left) - right / np.linalg.norm(right))
    walk = Walk(splits, as_csr(Z), np.arange(2000), 0)
    cuts = cuts_of_round(splits, 0, cuts_by_split(splits, *walk.counts()))
    on_left = walk.follow(cuts).at == ~0
    assert 660 <= on_left.sum() <= 673  # a third
    assert lean[on_left].min() > lean[~on_left].max() - 1e-3


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 50)), min_size=1, max_size=9, unique_by=lambda x: x[0]
    ),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_a_cut_takes_its_share_from_the_top(counts, left, right):
    bucket, labels = (np.array(column) for column in zip(*counts, strict=True))
    at, below = cut_of(bucket, labels, left, right)
    share = sum(n for b, n in counts if b > at) + sum(n * below / 2**64 for b, n in counts if b == at)
    assert share == pytest.approx(labels.sum() * left // (left + right), abs=1e-6)
    assert 0 <= below < 2**64


def test_labels_that_nothing_tells_apart_are_dealt_out_by_hash():
    for Z in (sp.csr_matrix((3000, 5), dtype=np.float32), sp.csr_matrix(np.ones((3000, 5), np.float32))):
        tree = build_tree(Z, branching=4, max_leaf=50, sample_labels=1000)
        assert sorted(tree.labels) == list(range(3000))
        assert np.diff(tree.child_ptr[-1]).max() <= 55


def test_rows_on_the_grid_have_length_one():
    Z = as_csr(sp.csr_matrix(np.array([[3.0, -4.0], [0, 0], [1e-8, 0]], np.float32)))
    assert on_grid(Z).to_scipy().toarray().tolist() == [[19661, -26214], [0, 0], [2**15 - 1, 0]]


def test_a_sample_that_cannot_tell_the_sub_trees_apart_is_refused(monkeypatch):
    with pytest.raises(
        InputError, match=r"sample_labels is 100: too few to tell 50 sub-trees .* to 800 or more"
    ):
        build_tree(topical_labels(4000), SMALL, sample_labels=100)
    monkeypatch.setattr(sampled, "_LABELS_PER_SUB_TREE", 1)
    with pytest.raises(InputError, match=r"1500 leaf clusters for 1500 labels .*max_leaf"):
        build_tree(topical_labels(), max_leaf=1, sample_labels=1000)
