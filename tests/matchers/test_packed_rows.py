"""Training rows survive the journey, and arrive in one order."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.matchers.packed_rows import TrainingRows, packed_rows, unpacked_rows
from xmcspark.sparse.csr import as_csr


def some_rows(count, seed=0, costs=False, soft=False, weights=False):
    rng = np.random.default_rng(seed)
    X = sp.random(count, 30, 0.3, format="csr", random_state=rng, dtype=np.float32)
    Y = sp.random(count, 9, 0.2, format="csr", random_state=rng, dtype=np.float32)
    if not soft:
        Y.data[:] = 1
    keys = rng.integers(-5, 5, count, dtype=np.int64)  # few: hashes decide between equal ones
    hashes = rng.permutation(count).astype(np.int64) - 3
    relevance = rng.uniform(1, 2, Y.nnz).astype(np.float32) if costs else None
    totals = rng.uniform(1, 9, count) if costs else None
    own = rng.uniform(0.5, 2, (count, 2)).astype(np.float32) if weights and count else None
    return TrainingRows(keys, hashes, as_csr(X), as_csr(Y), relevance, totals, weights=own)


def assert_equal(one, other):
    for name in ("keys", "hashes", "relevance", "totals", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("X", "Y"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.shape == b.shape
        for array in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(a, array), getattr(b, array))


@given(st.integers(0, 40), st.integers(0, 99), *3 * [st.booleans()], st.integers(1, 3000))
def test_rows_come_back_in_the_order_of_key_and_hash(count, seed, costs, soft, weights, size):
    rows = some_rows(count, seed, costs, soft, weights)
    strings = list(packed_rows(rows, size))
    np.random.default_rng(seed).shuffle(strings)
    back = unpacked_rows(strings, 30, 9, costs)
    assert strings == []  # nothing is held twice
    order = sorted(range(count), key=lambda r: (rows.keys[r], rows.hashes[r]))
    assert_equal(back, rows.take(np.array(order, np.int64)))


@pytest.mark.parametrize("size", [1, 500, 10**9])
def test_strings_are_about_as_long_as_wanted(size):
    rows = some_rows(200)
    strings = list(packed_rows(rows, size))
    longest_row = 400
    assert all(len(string) <= size + longest_row + 300 for string in strings)
    assert len(strings) == 200 if size == 1 else len(strings) < 200
