"""PIFA equals its formula (paper 1, eq. 1) and splits over partitions; text features, both together."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.labels.features import combine, concatenate, label_text_features, pifa, pifa_and_cut
from xmcspark.labels.label_sums import LabelSums, add_label_sums, features_of_sums, label_sums, pifa_grid
from xmcspark.sparse.csr import with_dense
from xmcspark.sparse.rows import take_rows


def instances(seed, n=200, labels=40, features=300, *, weighted=False):
    rng = np.random.default_rng(seed)
    X = sp.random(n, features, 0.05, format="csr", dtype=np.float32, random_state=rng)
    Y = sp.random(n, labels, 0.05, format="csr", dtype=np.float32, random_state=rng)
    if not weighted:
        Y.data[:] = 1
    return X, Y


def unit_rows(matrix):
    dense = np.asarray(matrix.todense(), np.float64)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(lengths > 0, lengths, 1)


def assert_equal_bits(a, b):
    assert a.shape == b.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans(), threads=st.integers(1, 3))
def test_pifa_is_the_normalised_sum_of_the_positives(seed, weighted, threads):
    X, Y = instances(seed, weighted=weighted)
    Z = pifa(X, Y, threads=threads)
    np.testing.assert_allclose(Z.toarray(), unit_rows(Y.T.astype(np.float64) @ X), atol=2e-7)
    assert Z.has_sorted_indices


@pytest.mark.parametrize("scale", [1e-25, 1e-6, 1e6, 1e25])
def test_pifa_does_not_depend_on_the_scale_of_the_features(scale):
    X, Y = instances(5)
    scaled = sp.csr_matrix(X * np.float64(scale), dtype=np.float32)
    np.testing.assert_allclose(pifa(scaled, Y).toarray(), pifa(X, Y).toarray(), atol=3e-7)


def test_labels_without_positives_and_positives_without_features_give_empty_rows():
    X = sp.csr_matrix(np.array([[1, 0], [0, 0]], np.float32))
    Y = sp.csr_matrix(np.array([[1, 0, 0], [0, 0, 1]], np.float32))
    Z = pifa(X, Y)
    np.testing.assert_array_equal(Z.toarray(), [[1, 0], [0, 0], [0, 0]])
    assert Z.nnz == 1


def test_a_label_whose_features_cancel_out_has_an_empty_row():
    X = sp.csr_matrix(np.array([[1.0], [-1.0]], np.float32))
    assert pifa(X, sp.csr_matrix(np.ones((2, 1), np.float32))).nnz == 0


def test_one_label_and_no_instances_are_allowed():
    X, _ = instances(1)
    assert pifa(X, np.ones((200, 1))).shape == (1, 300)
    empty = pifa(sp.csr_matrix((0, 5)), sp.csr_matrix((0, 3)))
    assert (empty.shape, empty.nnz) == ((3, 5), 0)


def test_rows_of_x_and_y_that_differ_are_refused():
    X, Y = instances(1)
    with pytest.raises(InputError, match="Y has 199 rows, but what it goes with has 200"):
        pifa(X, Y[:199])


@pytest.mark.parametrize("threads", [2, 5])
def test_pifa_does_not_depend_on_the_thread_count(threads):
    X, Y = instances(2, 5000, 700, 3000)
    assert_equal_bits(pifa(X, Y), pifa(X, Y, threads=threads))


def test_max_features_keeps_the_largest_weights_and_counts_the_rest():
    X, Y = instances(3)
    full, (Z, cut) = pifa(X, Y), pifa_and_cut(X, Y, max_features=10)
    assert cut.entries == full.nnz - Z.nnz > 0
    assert cut.rows == np.count_nonzero(np.diff(full.indptr) > 10)
    dense, kept = full.toarray(), Z.to_scipy().toarray()
    for row, small in zip(dense, kept, strict=True):
        largest = np.sort(np.argsort(-row, kind="stable")[: np.count_nonzero(small)])
        np.testing.assert_array_equal(np.flatnonzero(small), largest)
        if len(largest):
            np.testing.assert_allclose(small[largest], row[largest] / np.linalg.norm(row[largest]), rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    weighted=st.booleans(),
    max_features=st.sampled_from([None, 7]),
)
def test_label_features_do_not_depend_on_how_instances_are_split(seed, cuts, weighted, max_features):
    X, Y = instances(seed, weighted=weighted)
    grid = pifa_grid(X, Y)
    order = np.random.default_rng(seed).permutation(200)
    parts = [label_sums(X[rows], Y[rows], grid=grid) for rows in np.split(order, sorted(cuts))]
    parts = parts[::-1]
    whole, cut = pifa_and_cut(X, Y, max_features=max_features)
    split, split_cut = features_of_sums(parts, Y.shape[1], max_features=max_features, threads=2)
    assert_equal_bits(whole, split)
    assert cut == split_cut
    tree = [add_label_sums(parts[:2]), *parts[2:]] if len(parts) > 1 else parts
    assert_equal_bits(whole, features_of_sums(tree, Y.shape[1], max_features=max_features)[0])


def signed_instances(seed, largest_negative=1.0):
    """As `instances`, with a dense block of values of either sign beside the sparse ones."""
    X, Y = instances(seed)
    block = np.random.default_rng(seed).normal(size=(X.shape[0], 9))
    return with_dense(X, np.where(block < 0, block * largest_negative, block)), Y


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1000.0]), st.lists(st.integers(0, 200), max_size=4))
def test_a_dense_block_with_negative_values_counts_like_other_columns(seed, largest_negative, cuts):
    X, Y = signed_instances(seed, largest_negative)
    Z = pifa(X, Y)
    assert Z.shape == (Y.shape[1], X.shape[1])
    np.testing.assert_allclose(Z.toarray(), unit_rows(Y.T.astype(np.float64) @ X.to_scipy()), atol=2e-7)
    assert_equal_bits(Z, pifa(X.expanded(), Y))
    grid = pifa_grid(X, Y)  # from the largest magnitude, which is that of a negative value
    order = np.random.default_rng(seed).permutation(200)
    parts = [label_sums(take_rows(X, rows), Y[rows], grid=grid) for rows in np.split(order, sorted(cuts))]
    assert_equal_bits(Z, features_of_sums(parts[::-1], Y.shape[1])[0].to_scipy())


def test_max_features_keeps_what_is_largest_in_absolute_value():
    X, Y = signed_instances(3, 5.0)
    full, kept = pifa(X, Y).toarray(), pifa(X, Y, max_features=6).toarray()
    for row, small in zip(full, kept, strict=True):
        largest = np.sort(np.argsort(-abs(row), kind="stable")[: np.count_nonzero(small)])
        np.testing.assert_array_equal(np.flatnonzero(small), largest)
    assert (kept < 0).any()


def test_a_part_holds_only_the_labels_it_has_seen():
    X, Y = instances(4, 20, 100_000)
    part = label_sums(X, Y[:, :100_000], grid=2.0**-30)
    np.testing.assert_array_equal(part.labels, np.unique(Y.indices))
    few = sp.csr_matrix((Y.shape[0], 100_000), dtype=np.float32).tolil()
    few[3, 77_777] = few[5, 11] = 1
    np.testing.assert_array_equal(label_sums(X, few, grid=2.0**-30).labels, [11, 77_777])


def test_malformed_parts_are_refused():
    X, Y = instances(4)
    part = label_sums(X, Y, grid=2.0**-30)
    with pytest.raises(InputError, match="only 3 labels"):
        features_of_sums([part], 3)
    with pytest.raises(InputError, match="different feature spaces"):
        add_label_sums([part, label_sums(X[:, :7], Y, grid=2.0**-30)])
    with pytest.raises(InputError, match="at least one part"):
        add_label_sums([])
    with pytest.raises(InputError, match="malformed"):
        LabelSums(part.labels, part.indptr, part.indices, part.sums, cols=2)
    with pytest.raises(InputError, match="increasing"):
        LabelSums(part.labels[::-1], part.indptr, part.indices, part.sums, part.cols)
    with pytest.raises(InputError, match="row pointers"):
        LabelSums(part.labels, part.indptr[:-1], part.indices, part.sums, part.cols)


class WordCounts:
    """Counts of the letters a to z."""

    def transform(self, texts):
        return sp.csr_matrix(
            [[text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32
        )


def test_label_texts_become_rows_of_length_one():
    Z = label_text_features(["aab", "", "zz"], WordCounts())
    np.testing.assert_allclose(np.linalg.norm(Z.toarray(), axis=1), [1, 0, 1], rtol=1e-6)
    assert Z[2, 25] == 1


def test_concatenated_features_stand_side_by_side_with_their_weights():
    X, Y = instances(6)
    Z1, Z2 = pifa(X, Y), pifa(X[:, :50], Y)
    wanted = unit_rows(sp.hstack([2.0 * Z1, 0.5 * Z2]))
    result = concatenate([Z1, Z2], [2.0, 0.5], threads=2)
    np.testing.assert_allclose(result.toarray(), wanted, atol=2e-7)
    np.testing.assert_allclose(concatenate([Z1]).toarray(), Z1.toarray(), atol=2e-7)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_combined_features_are_the_renormalised_convex_combination(weight):
    X, Y = instances(7)
    Z1, Z2 = pifa(X, Y), pifa(X[::-1], Y)
    result = combine(Z1, Z2, weight)
    np.testing.assert_allclose(result.toarray(), unit_rows(weight * Z1 + (1 - weight) * Z2), atol=2e-7)


def test_a_label_known_to_one_side_only_keeps_that_side():
    known, unknown = (
        sp.csr_matrix(np.array([[0.6, 0.8]], np.float32)),
        sp.csr_matrix((1, 2), dtype=np.float32),
    )
    np.testing.assert_allclose(combine(known, unknown, 0.2).toarray(), known.toarray(), rtol=1e-6)


def test_features_that_do_not_go_together_are_refused():
    Z = sp.csr_matrix((3, 4), dtype=np.float32)
    with pytest.raises(InputError, match="Z2 has 2 rows"):
        combine(Z, Z[:2], 0.5)
    with pytest.raises(InputError, match="one feature space"):
        combine(Z, Z[:, :2], 0.5)
    with pytest.raises(InputError, match="between 0 and 1"):
        combine(Z, Z, 1.5)
    with pytest.raises(InputError, match="2 numbers"):
        concatenate([Z, Z], [1.0])
    with pytest.raises(InputError, match="all weights are 0"):
        concatenate([Z, Z], [0.0, 0.0])
    with pytest.raises(InputError, match="at least one matrix"):
        concatenate([])
    wide = sp.csr_matrix((3, 2**31 - 2), dtype=np.float32)
    with pytest.raises(InputError, match="2\\^31 - 1"):
        concatenate([wide, wide])
