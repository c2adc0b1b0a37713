import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.quality import label_features, leaf_cosine, precision

LABELS = 12
row_of_labels = st.sets(st.integers(0, LABELS - 1))
ranking = st.lists(st.integers(0, LABELS - 1), max_size=7, unique=True)


def matrix(rows):
    dense = np.zeros((len(rows), LABELS), np.float32)
    for i, labels in enumerate(rows):
        dense[i, list(labels)] = 1
    return sp.csr_matrix(dense)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ranking, row_of_labels, row_of_labels), min_size=1, max_size=5))
def test_precision_counts_hits_after_exclusion(rows):
    top = np.full((len(rows), 7), -1, np.int32)
    for i, (ranked, _, _) in enumerate(rows):
        top[i, : len(ranked)] = ranked
    found = precision(top, matrix([y for _, y, _ in rows]), matrix([e for _, _, e in rows]))
    for k in (1, 3, 5):
        hits = [len(set([r for r in ranked if r not in gone][:k]) & y) for ranked, y, gone in rows]
        assert found[f"P@{k}"] == pytest.approx(np.mean(hits) / k)


def test_padding_is_never_a_hit():
    assert precision(np.array([[-1, -1]]), matrix([{0, LABELS - 1}]))["P@1"] == 0


def test_predictions_for_other_rows_are_refused():
    with pytest.raises(ValueError, match="2 rows of predictions for 1 instances"):
        precision(np.zeros((2, 5), np.int32), matrix([{0}]))


def test_leaf_cosine_is_the_mean_cosine_to_the_leaf_centres():
    rng = np.random.default_rng(0)
    Z = rng.random((20, 6)) * (rng.random((20, 6)) < 0.5) + 1e-3
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    leaves = rng.integers(0, 4, 20)
    centres = np.array([Z[leaves == leaf].sum(axis=0) for leaf in range(4)])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    expected = (Z * centres[leaves]).sum(axis=1).mean()
    assert leaf_cosine(leaves, sp.csr_matrix(Z)) == pytest.approx(expected)


def test_label_features_are_the_normalised_sums_of_their_instances():
    X = sp.csr_matrix(np.array([[1, 0], [0, 2]], np.float32))
    Y = sp.csr_matrix(np.array([[1, 1, 0], [0, 1, 0]], np.float32))
    Z = label_features(X, Y).toarray()
    assert Z[0] == pytest.approx([1, 0])
    assert Z[1] == pytest.approx(np.array([1, 2]) / np.sqrt(5))
    assert Z[2] == pytest.approx([0, 0])
