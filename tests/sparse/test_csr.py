"""Whatever comes in, a Csr that goes out is well-formed, and nothing malformed reaches the kernels."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark._native.csr import first_bad_row, largest_magnitude
from xmcspark.errors import InputError
from xmcspark.sparse.csr import as_csr, with_dense
from xmcspark.sparse.rows import stacked_rows, take_rows
from xmcspark.sparse.spgemm import normalise_rows, spgemm


def small_matrix() -> sp.csr_matrix:
    return sp.csr_matrix(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 4]], np.float32))


def spoiled(**arrays: np.ndarray) -> sp.csr_matrix:
    matrix = small_matrix()
    for name, value in arrays.items():
        setattr(matrix, name, value)
    return matrix


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"indices": np.array([0, 3, 1, 2], np.int32)}, "row 0: a column index is negative or not below"),
        ({"indices": np.array([0, 2, -1, 2], np.int32)}, "row 2: a column index is negative or not below"),
        ({"indices": np.array([0, 2, 1, 2**40])}, "a column index is negative or not below"),
        ({"indptr": np.array([0, 3, 2, 4], np.int32)}, "row 1: its row pointers"),
        (
            {"indptr": np.array([0, 2, -(2**31), 4], np.int32)},
            "row 1: its row pointers",
        ),  # nnz overflowed int32
        ({"indptr": np.array([1, 2, 2, 4], np.int32)}, "its row pointers do not start at 0"),
        ({"indptr": np.array([0, 2, 2, 5], np.int32)}, "its row pointers"),
        ({"indptr": np.array([0, 2, 4], np.int32)}, "3 row pointers for 3 rows"),
        ({"indptr": np.array([0.0, 2.0, 2.0, 4.0])}, "its row pointers"),
        ({"data": np.array([1, np.nan, 3, 4], np.float32)}, "row 0: a value is NaN"),
        ({"data": np.array([1, 2, 3, np.inf], np.float32)}, "row 2: a value is NaN, infinite"),
        ({"data": np.array([1, 2, 3, 1e300])}, "row 2: a value is NaN, infinite or too large for float32"),
        ({"data": np.array([1, 2, 3], np.float32)}, "its row pointers"),
        ({"data": np.array([1j, 2, 3, 4])}, "values of type complex128: real numbers are needed"),
    ],
)
def test_malformed_rows_are_refused_with_the_place_and_the_reason(arrays, problem):
    with pytest.raises(InputError, match=problem):
        as_csr(spoiled(**arrays), "X")


def test_a_matrix_of_the_wrong_shape_is_refused_with_both_numbers():
    with pytest.raises(InputError, match="Y has 3 rows, but what it goes with has 5"):
        as_csr(small_matrix(), "Y", rows=5)
    with pytest.raises(InputError, match="Y has 3 columns, but what it goes with has 4"):
        as_csr(small_matrix(), "Y", cols=4)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 2, 2)), np.array([["a"]]), np.array([[None]]), 7])
def test_what_is_not_a_numeric_matrix_is_refused(bad):
    with pytest.raises(InputError, match="must be a sparse matrix or a 2-d numeric array"):
        as_csr(bad, "X")


def test_columns_out_of_range_are_refused_in_other_sparse_formats():
    csc, coo = small_matrix().tocsc(), small_matrix().tocoo()
    csc.indices = np.array([0, 2, 9, 2], np.int32)
    coo.coords = (coo.row, np.array([0, 2, 1, 9], np.int32))
    for matrix in (csc, coo):
        with pytest.raises(InputError, match="index"):
            as_csr(matrix, "X")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, bool])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dense"])
def test_every_real_type_and_format_gives_the_same_matrix(dtype, form):
    dense = small_matrix().toarray().astype(dtype)
    result = as_csr(dense if form == "dense" else sp.csr_matrix(dense).asformat(form))
    assert (result.indptr.dtype, result.indices.dtype, result.data.dtype) == (np.int64, np.int32, np.float32)
    np.testing.assert_array_equal(result.to_scipy().toarray(), dense.astype(np.float32))


def test_unsorted_and_duplicate_entries_are_sorted_and_summed_without_touching_the_input():
    matrix = sp.csr_matrix(
        (np.array([1, 2, 4], np.float32), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3)
    )
    result = as_csr(matrix)
    np.testing.assert_array_equal(result.indices, [0, 2])
    np.testing.assert_array_equal(result.data, [2, 5])
    np.testing.assert_array_equal(matrix.indices, [2, 0, 2])


@st.composite
def raw_arrays(draw):
    """Arrays that are mostly almost a CSR matrix."""
    rows = draw(st.lists(st.lists(st.integers(-1, 9), max_size=6), max_size=6))
    rows = [sorted(set(row)) if draw(st.integers(0, 5)) else row for row in rows]
    indptr = np.cumsum([0] + [len(row) for row in rows]).astype(np.int64)
    indices = np.array([c for row in rows for c in row], np.int32)
    value = st.sampled_from([0.0, -1.5, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, np.nan, -np.inf])
    data = np.array([draw(value) for _ in indices], draw(st.sampled_from([np.float32, np.float64])))
    return indptr, indices, data, draw(st.integers(0, 11))


def first_bad_slowly(indptr, indices, data, cols):
    for row, (a, b) in enumerate(itertools.pairwise(indptr)):
        previous = -1
        for c, v in zip(indices[a:b], data[a:b], strict=True):
            if not 0 <= c < cols:
                return row, "range"
            if c <= previous:
                return row, "order"
            if not np.isfinite(v):
                return row, "finite"
            previous = c
    return None


@given(raw_arrays())
def test_the_first_fault_found_is_the_first_there_is(arrays):
    assert first_bad_row(*arrays) == first_bad_slowly(*arrays)


def test_a_fault_beyond_the_first_block_of_the_flat_check_is_found():
    n = 10_000
    indptr, indices = np.array([0, n], np.int64), np.arange(n, dtype=np.int32)
    data = np.ones(n, np.float32)
    assert first_bad_row(indptr, indices, data, n) is None
    for at in (1, 4095, 4096, 4097, n - 1):
        swapped = indices.copy()
        swapped[at] = swapped[at - 1]
        assert first_bad_row(indptr, swapped, data, n) == (0, "order")
        infinite = data.copy()
        infinite[at] = np.inf
        assert first_bad_row(indptr, indices, infinite, n) == (0, "finite")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_transpose_equals_scipy(rows, cols, seed):
    matrix = sp.random(rows, cols, 0.2, format="csr", dtype=np.float32, random_state=seed)
    matrix.sort_indices()
    result, wanted = as_csr(matrix).transpose(), matrix.T.tocsr()
    assert result.shape == (cols, rows)
    np.testing.assert_array_equal(result.indptr, wanted.indptr)
    np.testing.assert_array_equal(result.indices, wanted.indices)
    np.testing.assert_array_equal(result.data, wanted.data)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_largest_magnitude_is_the_largest_absolute_value(values):
    assert largest_magnitude(np.array(values, np.float32)) == max((abs(v) for v in values), default=0.0)


def test_a_dense_block_holds_the_last_columns():
    sparse = sp.random(7, 5, 0.4, "csr", np.float32, random_state=1)
    block = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    matrix = with_dense(sparse, block)
    whole = np.hstack([sparse.toarray(), block])
    assert matrix.shape == (7, 8)
    assert (matrix.width, matrix.nnz) == (3, sparse.nnz)
    np.testing.assert_array_equal(matrix.to_scipy().toarray(), whole)
    np.testing.assert_array_equal(matrix.transpose().to_scipy().toarray(), whole.T)
    np.testing.assert_array_equal(matrix.sparse.to_scipy().toarray(), sparse.toarray())
    assert as_csr(matrix.expanded().to_scipy()).nnz == sparse.nnz + block.size


def test_rows_with_a_dense_block_are_taken_and_stacked_whole():
    sparse = sp.random(6, 4, 0.5, "csr", np.float32, random_state=2)
    block = np.random.default_rng(2).standard_normal((6, 2)).astype(np.float32)
    matrix, whole = with_dense(sparse, block), np.hstack([sparse.toarray(), block])
    rows = np.array([5, 0, 0, 3])
    taken = take_rows(matrix, rows)
    assert taken.width == 2
    np.testing.assert_array_equal(taken.to_scipy().toarray(), whole[rows])
    stacked = stacked_rows([taken, matrix])
    np.testing.assert_array_equal(stacked.to_scipy().toarray(), np.vstack([whole[rows], whole]))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        (np.zeros((4, 0)), r"shape \(4, 0\)"),
        (np.full((4, 1), np.nan), "NaN"),
        (np.zeros(4), r"shape \(4,\)"),
    ],
)
def test_a_dense_block_that_does_not_fit_is_refused(block, said):
    with pytest.raises(InputError, match=said):
        with_dense(sp.csr_matrix((4, 2), dtype=np.float32), block)


def test_a_block_is_refused_where_it_has_no_use_and_never_dropped():
    matrix = with_dense(sp.csr_matrix(np.eye(2, dtype=np.float32)), np.ones((2, 3)))
    with pytest.raises(
        InputError, match=r"Y has a dense block of 3 columns, which has no use here: give its sparse"
    ):
        as_csr(matrix, "Y")
    assert as_csr(matrix, "X", dense="keep") is matrix
    assert as_csr(matrix, "X", dense="expand").nnz == 8
    whole = matrix.to_scipy().toarray()
    np.testing.assert_array_equal(spgemm(matrix, np.eye(5)).toarray(), whole)
    np.testing.assert_array_equal(spgemm(np.eye(2), matrix).toarray(), whole)
    np.testing.assert_allclose(normalise_rows(matrix).toarray(), whole / 2)


def test_a_matrix_takes_one_dense_block():
    matrix = with_dense(sp.csr_matrix((2, 2), dtype=np.float32), np.ones((2, 1)))
    with pytest.raises(InputError, match="has a dense block already"):
        with_dense(matrix, np.ones((2, 1)))
