"""Training rows survive the journey, and arrive in one order."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import StoreError
from xmcspark.matchers.packed_rows import TrainingRows, packed_rows, unpacked_rows
from xmcspark.matchers.row_store import RowStore, keep_rows, references
from xmcspark.sparse.csr import as_csr, with_dense
from xmcspark.text.feature_table import FeatureSpace

SPACE = FeatureSpace(26, 4)  # for rows without embeddings the last four are columns like any other


def some_rows(count, seed=0, costs=False, soft=False, weights=False, dense=False):
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
    X = with_dense(X[:, :26], rng.standard_normal((count, 4))) if dense else as_csr(X)
    return TrainingRows(keys, hashes, X, as_csr(Y), relevance, totals, weights=own)


def assert_equal(one, other):
    for name in ("keys", "hashes", "relevance", "totals", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("X", "Y"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.shape == b.shape
        for array in ("indptr", "indices", "data", "dense"):
            np.testing.assert_array_equal(getattr(a, array), getattr(b, array))


@given(st.integers(1, 40), st.integers(0, 99), *4 * [st.booleans()], st.integers(1, 3000))
def test_rows_come_back_in_the_order_of_key_and_hash(count, seed, costs, soft, weights, dense, size):
    rows = some_rows(count, seed, costs, soft, weights, dense)
    strings = list(packed_rows(rows, size))
    np.random.default_rng(seed).shuffle(strings)
    back = unpacked_rows(strings, SPACE, 9, costs)
    assert strings == []  # nothing is held twice
    order = sorted(range(count), key=lambda r: (rows.keys[r], rows.hashes[r]))
    assert_equal(back, rows.take(np.array(order, np.int64)))


def test_no_rows_have_the_columns_of_embeddings_nevertheless():
    assert unpacked_rows([], SPACE, 9, False).X.dense.shape == (0, SPACE.width)
    assert unpacked_rows([], FeatureSpace(30), 9, False).X.dense is None


@pytest.mark.parametrize("size", [1, 500, 10**9])
def test_strings_are_about_as_long_as_wanted(size):
    rows = some_rows(200)
    strings = list(packed_rows(rows, size))
    longest_row = 400
    assert all(len(string) <= size + longest_row + 300 for string in strings)
    assert len(strings) == 200 if size == 1 else len(strings) < 200


@given(st.integers(0, 40), st.integers(0, 99), st.integers(1, 3), st.integers(1, 3000), st.booleans())
def test_rows_that_are_kept_are_found_from_references(tmp_path_factory, count, seed, stores, size, dense):
    folder = tmp_path_factory.mktemp("rows")
    parts = [some_rows(count, seed + number, dense=dense and count > 0) for number in range(stores)]
    strings = []
    for part in parts:
        name = keep_rows(folder, part.X)
        strings += packed_rows(replace(part, X=references(len(part))), size, name)
    by_value = unpacked_rows(
        [string for part in parts for string in packed_rows(part)], SPACE, 9, costs=False
    )
    back = unpacked_rows(strings, SPACE, 9, costs=False, kept=RowStore(folder))
    if stores == 1:  # else rows with the same key and hash may come in either order
        assert_equal(back, by_value)
    assert np.array_equal(np.sort(back.X.data), np.sort(by_value.X.data))


def test_rows_that_are_not_kept_are_told(tmp_path):
    rows = some_rows(5)
    name = keep_rows(tmp_path, rows.take(np.arange(3)).X)
    with pytest.raises(StoreError, match="run the stage again"):
        unpacked_rows(
            list(packed_rows(replace(rows, X=references(5)), store=name)),
            SPACE,
            9,
            False,
            None,
            RowStore(tmp_path),
        )
