"""List columns of Arrow and sparse matrices are the same thing, read without copying."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.sparse.arrow import csr_of_lists, lists_of_csr
from xmcspark.sparse.csr import as_csr


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(1, 9))
def test_a_matrix_survives_being_lists(seed, rows, cols):
    X = as_csr(sp.random(rows, cols, 0.4, "csr", np.float32, np.random.default_rng(seed)))
    back = csr_of_lists(*lists_of_csr(X), cols)
    assert (back.to_scipy() != X.to_scipy()).nnz == 0


def test_slices_and_chunks_are_read_as_what_they_show():
    lists = pa.array([[1, 2], [3], [], [0, 5]], pa.list_(pa.int32()))
    assert csr_of_lists(lists.slice(1, 2), None, 6).to_scipy().toarray().nonzero()[1].tolist() == [3]
    chunked = pa.chunked_array([lists.slice(3), lists.slice(0, 1)])
    assert csr_of_lists(chunked, None, 6).indices.tolist() == [0, 5, 1, 2]


def test_values_are_not_copied():
    indices, values = lists_of_csr(as_csr(sp.identity(50, np.float32, "csr")))
    assert np.shares_memory(csr_of_lists(indices, values, 50).data, values.values.to_numpy())


def test_a_null_list_is_an_empty_row():
    lists = pa.array([[1], None, [2]], pa.list_(pa.int32()))
    assert np.diff(csr_of_lists(lists, None, 3).indptr).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("columns", "values", "says"),
    [
        ([[0], [2, 1]], [[1.0], [1.0, 1.0]], "row 1: columns must be increasing"),
        ([[0], [1, 1]], [[1.0], [1.0, 1.0]], "row 1: columns must be increasing"),
        ([[-1]], [[1.0]], "not negative"),
        ([[0]], [[float("nan")]], "values finite"),
        ([[0], [1]], [[1.0], [1.0, 2.0]], "row 1: as many values as columns"),
        ([[0, None]], [[1.0, 1.0]], "null inside a list"),
    ],
)
def test_lists_that_are_no_matrix_are_refused(columns, values, says):
    with pytest.raises(InputError, match=says):
        csr_of_lists(pa.array(columns, pa.list_(pa.int32())), pa.array(values, pa.list_(pa.float32())), 5)
