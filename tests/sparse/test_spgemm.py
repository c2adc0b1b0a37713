"""The product equals scipy's, for every accumulator, and not a bit of it depends on threads or order."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.spgemm import exact_grid, multiply, normalise_rows, spgemm


def random_rows(rng, rows, cols, most, *, dtype=np.float32):
    """Rows of 0 to `most` entries, some columns far more popular than others."""
    lengths = rng.integers(0, most + 1, rows)
    owner = np.repeat(np.arange(rows), lengths)
    columns = (cols * rng.random(len(owner)) ** 3).astype(np.int64)
    values = rng.standard_normal(len(owner)).astype(dtype)
    matrix = sp.csr_matrix((values, (owner, columns)), shape=(rows, cols))
    matrix.sum_duplicates()
    return matrix


def assert_same(result, wanted, tolerance=1e-5):
    assert result.shape == wanted.shape
    assert as_csr(result).nnz == result.nnz  # well-formed, so sorted
    difference = abs(result - wanted)
    assert difference.nnz == 0 or difference.max() <= tolerance


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 40),
    inner=st.integers(1, 40),
    cols=st.sampled_from([1, 2, 63, 64, 65, 500, 4096, 4097, 100_000, 2_000_000]),
    per_row=st.sampled_from([1, 2, 6, 12, 40]),
    threads=st.integers(1, 4),
)
def test_product_equals_scipy(seed, rows, inner, cols, per_row, threads):
    rng = np.random.default_rng(seed)
    A, B = random_rows(rng, rows, inner, per_row), random_rows(rng, inner, cols, 30)
    wanted = A.astype(np.float64) @ B.astype(np.float64)
    result = spgemm(A, B, threads=threads)
    assert result.dtype == np.float32
    assert_same(result, wanted)


def test_the_widest_matrix_is_multiplied_without_memory_for_its_width():
    # No scipy here: it allocates arrays as long as a row is wide, 2^31 entries each.
    rng = np.random.default_rng(0)
    A, narrow = random_rows(rng, 5, 40, 40), random_rows(rng, 40, 1000, 30)
    wide = narrow.copy()
    stride = 2**21
    wide.indices = (narrow.indices * stride).astype(np.int32)
    wide.resize(40, 2**31 - 1)
    result, wanted = spgemm(A, wide), spgemm(A, narrow)
    np.testing.assert_array_equal(result.indices, wanted.indices * stride)
    np.testing.assert_allclose(result.data, wanted.data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("terms_per_row", [1, 3, 5, 6, 7, 50, 400])
def test_the_bits_do_not_depend_on_the_thread_count(terms_per_row):
    rng = np.random.default_rng(terms_per_row)
    A = random_rows(rng, 3000, 1000, terms_per_row)
    B = random_rows(rng, 1000, 20_000, 60)
    one = spgemm(A, B)
    assert one.nnz > 0
    for threads in (2, 3, 8):
        many = spgemm(A, B, threads=threads)
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def digest_of_products() -> str:
    rng = np.random.default_rng(11)
    digest = hashlib.sha256()
    for terms_per_row in (1, 3, 8, 30):
        A, B = random_rows(rng, 300, 200, terms_per_row), random_rows(rng, 200, 5000, 60)
        for normalise in (False, True):
            result, _ = multiply(as_csr(A), as_csr(B), normalise=normalise)
            for array in (result.indptr, result.indices, result.data):
                digest.update(array.tobytes())
    return digest.hexdigest()


def test_the_bits_do_not_depend_on_the_instruction_set():
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_spgemm as t; "
    code += "print(t.digest_of_products())"
    for isa in ("generic", "avx2", "avx512"):
        environment = {**os.environ, "XMCSPARK_ISA": isa}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert run.stdout.strip() == digest_of_products(), run.stderr


def test_chunks_completed_out_of_order_are_packed_in_order():
    rng = np.random.default_rng(3)
    B = random_rows(rng, 2000, 300_000, 200)
    heavy = random_rows(rng, 1, 2000, 4000)  # first, and much slower than what follows
    A = sp.vstack([heavy, random_rows(rng, 20_000, 2000, 6)], format="csr")
    assert_same(spgemm(A, B, threads=8), A @ B, 1e-3)


def test_empty_operands_give_an_empty_product_of_the_right_shape():
    for rows, inner, cols in [(0, 0, 0), (0, 3, 4), (3, 0, 4), (3, 4, 0), (3, 4, 5)]:
        result = spgemm(sp.csr_matrix((rows, inner)), sp.csr_matrix((inner, cols)))
        assert (result.shape, result.nnz) == ((rows, cols), 0)


def test_shapes_that_do_not_fit_are_refused_with_both_numbers():
    with pytest.raises(InputError, match="B has 4 rows, but what it goes with has 3"):
        spgemm(sp.csr_matrix((2, 3)), sp.csr_matrix((4, 2)))


def test_wrong_settings_are_refused():
    A = sp.eye(2, format="csr")
    with pytest.raises(InputError, match="threads is 0"):
        spgemm(A, A, threads=0)
    for grid in (0.0, -1.0, 0.3, float("nan"), float("inf")):
        with pytest.raises(InputError, match="a power of two is needed"):
            spgemm(A, A, grid=grid)
    with pytest.raises(InputError, match="max_features is 0"):
        multiply(as_csr(A), as_csr(A), max_features=0)


def test_a_sum_too_large_for_float32_is_an_error_not_an_infinity():
    A = sp.csr_matrix(np.full((1, 2), 1e30, np.float32))
    with pytest.raises(InputError, match="too large for float32"):
        spgemm(A, A.T.tocsr())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e6, 1e15]))
def test_sums_on_the_exact_grid_do_not_depend_on_the_order_of_the_terms(seed, scale):
    rng = np.random.default_rng(seed)
    A, B = random_rows(rng, 10, 60, 60), random_rows(rng, 60, 50, 20)
    A.data *= np.float32(scale)
    grid = exact_grid(abs(A).max(), abs(B).max(), 60)
    order = rng.permutation(60)
    straight, shuffled = spgemm(A, B, grid=grid), spgemm(A[:, order], B[order], grid=grid)
    np.testing.assert_array_equal(straight.toarray(), shuffled.toarray())
    assert_same(straight / scale, (A / scale) @ B, 1e-5)


def test_the_exact_grid_is_fine_enough_coarse_enough_and_steady():
    assert exact_grid(1.0, 1.0, 1000) == 2.0**-38
    assert exact_grid(1.0, 1.0, 2**20) == 2.0**-30
    assert exact_grid(1.0, 1.0, 1100) == exact_grid(1.0, 1.0, 8000)
    assert exact_grid(0.0, 1.0, 5) > 0.0
    for terms in (1, 100, 10**6, 10**12):
        assert terms / exact_grid(1.0, 1.0, terms) <= 2.0**51
    with pytest.raises(InputError, match="not finite"):
        exact_grid(float("inf"), 1.0, 1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 40))
def test_max_features_keeps_the_largest_and_of_equal_ones_the_first(seed, most):
    rng = np.random.default_rng(seed)
    B = random_rows(rng, 1, 100, 60)
    B.data = rng.integers(-3, 4, B.nnz).astype(np.float32)
    result, cut = multiply(as_csr(np.ones((1, 1))), as_csr(B), max_features=most)
    kept = np.sort(np.lexsort((B.indices, -abs(B.data)))[:most])
    np.testing.assert_array_equal(result.indices, B.indices[kept])
    np.testing.assert_array_equal(result.data, B.data[kept])
    assert cut.entries == B.nnz - len(kept)
    assert cut.rows == (B.nnz > most)


def test_rows_are_divided_by_their_length_and_empty_rows_stay():
    matrix = sp.csr_matrix(np.array([[3, 4, 0], [0, 0, 0], [0, 0, -7]], np.float32))
    matrix.data[-1] = -7
    np.testing.assert_allclose(
        normalise_rows(matrix).toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0, 0, -1]], rtol=1e-7
    )
    zeros = sp.csr_matrix((np.zeros(2, np.float32), [0, 1], [0, 2]), shape=(1, 2))
    np.testing.assert_array_equal(normalise_rows(zeros).data, [0, 0])
    np.testing.assert_array_equal(matrix.data, [3, 4, -7])


def test_lengths_far_outside_float32_do_not_overflow():
    for value in (1e-30, 1e30):
        row = sp.csr_matrix(np.full((1, 40), value, np.float32))
        np.testing.assert_allclose(normalise_rows(row).data, 40**-0.5, rtol=1e-6)
