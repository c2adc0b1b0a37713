"""Soft targets follow eq. 1.6 of paper 5 and its variants, pair by pair."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.labels import AugmentSettings, gandalf_rows
from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.labels.soft_targets import soft_targets
from xmcspark.sparse.csr import as_csr


def labels_of(seed, rows=60, labels=12, density=0.2):
    return sp.random(rows, labels, density, format="csr", dtype=np.float32, random_state=seed)


def slow_targets(Y, delta, kind="gandalf", least=1):
    """Dense, one pair after the other; rows are labels whose text is the instance."""
    ones = (Y.toarray() != 0).astype(np.int64)
    G = ones.T @ ones
    itself = 1 / (1 + math.exp(-1)) if kind == "glas" else 1.0  # S of a label with itself is 1
    found = itself * np.eye(len(G))
    for j in range(len(G)):
        for i in range(len(G)):
            if i == j or G[i, j] < max(1, least) or kind == "self":
                continue
            strength = G[i, j] / G[j, j]
            if kind == "glas":
                strength = 0.5 * (strength + G[i, j] / G[i, i])
            if strength > delta:
                found[j, i] = 1 / (1 + math.exp(-strength)) if kind == "glas" else strength
    return found


@given(
    seed=st.integers(0, 2**32 - 1),
    delta=st.sampled_from([0.0, 0.1, 0.25, 0.5]),
    kind=st.sampled_from(["gandalf", "self", "glas"]),
    least=st.integers(1, 3),
)
def test_targets_are_those_of_the_formula(seed, delta, kind, least):
    Y = labels_of(seed)
    ids, targets = gandalf_rows(Y, targets=kind, delta=delta, min_count=least)
    np.testing.assert_array_equal(ids, np.arange(12))
    wanted = slow_targets(Y, delta, kind, least)
    np.testing.assert_allclose(targets.toarray(), wanted, rtol=1e-7)
    assert targets.nnz == np.count_nonzero(wanted)
    assert targets.dtype == np.float32


def test_a_probability_of_exactly_delta_is_not_above_it():
    Y = np.zeros((20, 3))
    Y[:10, 0] = 1
    Y[0, 1] = 1  # 1 of the 10
    Y[:2, 2] = 1  # 2 of the 10
    _, targets = gandalf_rows(Y, delta=0.1, min_count=1)
    np.testing.assert_array_equal(targets[0].toarray(), np.float32([[1, 0, 0.2]]))
    _, targets = gandalf_rows(Y, delta=0.2)
    np.testing.assert_array_equal(targets[0].toarray(), np.float32([[1, 0, 0]]))


def test_targets_do_not_depend_on_the_order_of_instances_or_on_threads():
    Y, keys = labels_of(8, 500, 40, 0.3), np.arange(500) * 977
    order = np.random.default_rng(1).permutation(500)
    one = gandalf_rows(Y, max_labels=6, max_neighbours=8, row_keys=keys)[1]
    other = gandalf_rows(Y[order], max_labels=6, max_neighbours=8, row_keys=keys[order], threads=3)[1]
    assert one.nnz > 40
    assert (one != other).nnz == 0


def test_a_label_without_instances_is_answered_with_itself():
    for kind, itself in (("gandalf", 1.0), ("glas", 1 / (1 + math.exp(-1)))):
        ids, targets = gandalf_rows(sp.csr_matrix((5, 3)), targets=kind)
        np.testing.assert_array_equal(ids, [0, 1, 2])
        np.testing.assert_array_equal(targets.toarray(), np.float32(itself) * np.eye(3))


def test_walks_find_what_counts_find_and_labels_behind_them():
    Y = np.zeros((40, 4))  # 0 with 1, 1 with 2; nobody has 3
    Y[:20, :2] = Y[20:, 1:3] = 1
    _, direct = gandalf_rows(Y, delta=0.05)
    _, targets = gandalf_rows(Y, delta=0.05, graph="random-walk", restart=0.3)
    assert direct[0, 2] == 0 < targets[0, 2] < targets[0, 1]
    np.testing.assert_array_equal(targets[3].toarray(), [[0, 0, 0, 1]])


def test_a_share_of_the_labels_has_rows():
    Y = labels_of(9, 300, 400, 0.02)
    ids, targets = gandalf_rows(Y, share=0.5, seed=2)
    assert 150 < len(ids) < 250
    assert targets.shape == (len(ids), 400)
    whole = gandalf_rows(Y)[1]
    assert (targets != whole[ids]).nnz == 0


def test_glas_needs_the_counts_of_all_labels():
    rows, _ = counted_neighbours(as_csr(labels_of(1)), 5)
    glas = AugmentSettings(targets="glas")
    for own, message in (
        (None, "give own_counts"),
        (np.ones(3), "give all"),
        (np.zeros(12), "same counting"),
    ):
        with pytest.raises(InputError, match=message):
            soft_targets(rows, glas, own)
