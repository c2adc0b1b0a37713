"""The shared form of predictions: order, padding, conversion, exclusion."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions

SCORES = st.sampled_from([-2.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3e38, 1e-40])


@st.composite
def score_rows(draw, n_labels=12):
    """Rows of {label: score}, with many equal scores."""
    return draw(st.lists(st.dictionaries(st.integers(0, n_labels - 1), SCORES), max_size=8))


def matrix_of(rows, n_labels=12):
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = [label for row in rows for label in sorted(row)]
    data = [row[label] for row in rows for label in sorted(row)]
    return sp.csr_matrix(
        (np.array(data, np.float32), np.array(indices, np.int32), indptr), (len(rows), n_labels)
    )


def ranked(row, k=None):
    return sorted(((label, np.float32(score)) for label, score in row.items()), key=lambda p: (-p[1], p[0]))[
        :k
    ]


def as_lists(predictions):
    return [
        [(int(label), score) for label, score in zip(*pair, strict=True) if label >= 0]
        for pair in zip(predictions.labels, predictions.scores, strict=True)
    ]


@settings(deadline=None)
@given(score_rows(), st.integers(1, 15))
def test_from_csr_keeps_the_best_by_score_then_label(rows, k):
    predictions = Predictions.from_csr(matrix_of(rows), k).check(12)
    assert as_lists(predictions) == [ranked(row, k) for row in rows]


@settings(deadline=None)
@given(score_rows())
def test_to_csr_and_back_is_the_identity(rows):
    matrix = matrix_of(rows)
    back = Predictions.from_csr(matrix, 12).to_csr(12)
    assert back.shape == matrix.shape
    np.testing.assert_array_equal(back.indptr, matrix.indptr)
    np.testing.assert_array_equal(back.indices, matrix.indices)
    np.testing.assert_array_equal(back.data, matrix.data)


@settings(deadline=None)
@given(score_rows(), st.integers(0, 2**32))
def test_ranked_puts_any_order_in_order(rows, seed):
    sorted_rows = Predictions.from_csr(matrix_of(rows), 12)
    order = np.random.default_rng(seed).permutation(sorted_rows.k)
    mixed = Predictions.ranked(sorted_rows.labels[:, order], sorted_rows.scores[:, order])
    np.testing.assert_array_equal(mixed.labels, sorted_rows.labels)
    np.testing.assert_array_equal(mixed.scores, sorted_rows.scores)


@settings(deadline=None)
@given(score_rows(), st.integers(0, 2**32))
def test_exclude_removes_labels_and_keeps_the_order(rows, seed):
    predictions = Predictions.from_csr(matrix_of(rows), 12)
    excluded = np.random.default_rng(seed).random((len(rows), 12)) < 0.3
    left = predictions.exclude(sp.csr_matrix(excluded.reshape(len(rows), 12))).check(12)
    assert left.labels.shape == predictions.labels.shape
    assert as_lists(left) == [
        [pair for pair in ranked(row) if not excluded[i, pair[0]]] for i, row in enumerate(rows)
    ]


def test_top_keeps_the_first_and_never_widens():
    predictions = Predictions([[3, 1]], [[2.0, 1.0]])
    assert predictions.top(1).labels.tolist() == [[3]]
    assert predictions.top(5) is predictions


def test_long_and_short_rows_together():
    dense = np.zeros((3, 5000), np.float32)
    dense[0] = np.arange(1, 5001)
    dense[2, 7] = 1.0
    best = Predictions.from_csr(sp.csr_matrix(dense), 2)
    assert best.labels.tolist() == [[4999, 4998], [-1, -1], [7, -1]]


def test_arrays_become_int32_and_float32():
    predictions = Predictions([[3, 1]], [[2, 1]])
    assert (predictions.labels.dtype, predictions.scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Predictions([1, 2], [1.0, 2.0]), "rows, k"),
        (lambda: Predictions([[1, 2]], [[1.0]]), "rows, k"),
        (lambda: Predictions([[1.5]], [[1.0]]), "integers"),
        (lambda: Predictions([[2**31]], [[1.0]]), "outside"),
        (lambda: Predictions([[1]], [[1e300]]).check(), "infinite"),
        (lambda: Predictions([[1], [9]], [[1.0], [1.0]]).check(5), "row 1"),
        (lambda: Predictions([[1]], [[1.0]]).top(0), "k is 0"),
        (lambda: Predictions.from_csr(sp.csr_matrix((1, 1)), 0), "k is 0"),
        (lambda: Predictions.ranked([[1]], [[np.nan]]), "NaN"),
        (lambda: Predictions([[1]], [[1.0]]).exclude(sp.csr_matrix((2, 3))), "rows"),
        (lambda: Predictions([[7]], [[1.0]]).to_csr(5), "outside"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make, message):
    with pytest.raises(InputError, match=message):
        make()
