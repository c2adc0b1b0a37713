"""A trained repetition gives the margins that its weights say, alone or in a batch, and opens again as it was saved."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.mach import feature_hashing
from xmcspark.mach.feature_hashing import hashed_rows
from xmcspark.mach.repetition import LinearRepetition, MlpRepetition, Part, load_repetition
from xmcspark.matchers.model import Matchers
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows


def _part(buckets: int = 7, features: int = 30, hashed_features: int = 0) -> Part:
    return Part(2, 5, buckets, 100, features, hashed_features)


def _rows(seed: int = 0, rows: int = 20, features: int = 30) -> Csr:
    rng = np.random.default_rng(seed)
    X = sp.random(rows, features, 0.2, format="csr", random_state=rng, dtype=np.float32)
    X.data *= rng.choice([1, -3, 0.001], X.nnz).astype(np.float32)
    return as_csr(X)


def _linear(part: Part, seed: int = 0) -> LinearRepetition:
    rng = np.random.default_rng(seed)
    W = as_csr(sp.random(part.buckets, part.columns, 0.3, format="csr", random_state=rng, dtype=np.float32))
    return LinearRepetition.of(part, Matchers(W, rng.normal(size=part.buckets).astype(np.float32)))


def _mlp(part: Part, seed: int = 0, softmax: bool = False, hidden: int = 16) -> MlpRepetition:
    rng = np.random.default_rng(seed)
    shapes = ((part.columns, hidden), (hidden,), (hidden, part.buckets), (part.buckets,))
    return MlpRepetition.of(part, *(rng.normal(size=shape).astype(np.float32) for shape in shapes), softmax)


def _mlp_by_hand(mlp: MlpRepetition, X: Csr) -> np.ndarray:
    hidden = np.maximum(X.to_scipy() @ mlp.embedding.astype(np.float64) + mlp.hidden_bias, 0)
    return hidden @ mlp.output + mlp.bias


def test_linear_margins_are_products_of_weights_and_rows():
    part = _part()
    rng = np.random.default_rng(1)
    W = sp.random(7, 30, 0.3, format="csr", random_state=rng, dtype=np.float32)
    bias = rng.normal(size=7).astype(np.float32)
    X = _rows()
    found = LinearRepetition.of(part, Matchers(as_csr(W), bias)).margins(X)
    assert found.dtype == np.float32
    assert np.allclose(found, X.to_scipy() @ W.T + bias, atol=1e-5)


def test_small_sketches_keep_bucket_numbers_in_two_bytes():
    assert _linear(_part()).buckets.dtype == np.uint16
    assert _linear(_part(buckets=2**16 + 1, features=3)).buckets.dtype == np.int32


@given(st.integers(0, 2**32), st.booleans())
def test_mlp_margins_are_those_of_its_layers(seed, softmax):
    mlp, X = _mlp(_part(), seed, softmax), _rows(seed)
    z = _mlp_by_hand(mlp, X)
    if not softmax:
        assert np.allclose(mlp.margins(X), z, atol=1e-4)
        return
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert np.allclose(1 / (1 + np.exp(-mlp.margins(X).astype(np.float64))), p, atol=1e-4)


@pytest.mark.parametrize("make", [_linear, _mlp, lambda part: _mlp(part, softmax=True)])
@pytest.mark.parametrize("hashed_features", [0, 9])
def test_margins_of_a_row_are_the_same_bits_alone_and_among_others(make, hashed_features):
    repetition, X = make(_part(hashed_features=hashed_features)), _rows(3, 50)
    together = repetition.margins(X, threads=2)
    for row in (0, 17, 49):
        assert np.array_equal(repetition.margins(take_rows(X, np.array([row])))[0], together[row])


def test_mlp_sums_are_exact_so_that_no_order_of_additions_matters():
    mlp, X = _mlp(_part(buckets=40), hidden=300), _rows(4, 30)
    shuffled = np.random.default_rng(0).permutation(300)
    other = MlpRepetition(
        mlp.part,
        np.ascontiguousarray(mlp.embedding[:, shuffled]),
        mlp.hidden_bias[shuffled],
        np.ascontiguousarray(mlp.output[shuffled]),
        mlp.bias,
        False,
    )
    assert np.array_equal(mlp.margins(X), other.margins(X))


def test_mlp_margins_do_not_depend_on_blocks(monkeypatch):
    mlp, X = _mlp(_part()), _rows(5, 40)
    expected = mlp.margins(X)
    monkeypatch.setattr("xmcspark.mach.repetition._GATHERED_BYTES", 16 * 8 * 5)
    assert np.array_equal(mlp.margins(X), expected)


@pytest.mark.parametrize("make", [_linear, _mlp])
def test_rows_without_features_have_the_bias_of_any_row(make):
    repetition = make(_part())
    found = repetition.margins(as_csr(sp.csr_matrix((2, 30), dtype=np.float32)))
    if isinstance(repetition, MlpRepetition):
        expected = np.maximum(repetition.hidden_bias, 0) @ repetition.output + repetition.bias
    else:
        expected = repetition.bias
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("make", [_linear, _mlp, lambda part: _mlp(part, softmax=True)])
@pytest.mark.parametrize("hashed_features", [0, 9])
def test_a_saved_repetition_opens_as_it_was(make, hashed_features, tmp_path):
    repetition, X = make(_part(hashed_features=hashed_features)), _rows()
    repetition.save(tmp_path)
    opened = load_repetition(tmp_path)
    assert type(opened) is type(repetition)
    assert opened.part == repetition.part
    assert np.array_equal(opened.margins(X), repetition.margins(X))
    assert opened.n_bytes == repetition.n_bytes


@pytest.mark.parametrize("make", [_linear, _mlp])
def test_x_of_other_features_is_refused(make):
    with pytest.raises(InputError, match="X has 29 columns"):
        make(_part()).margins(_rows(features=29))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("buckets", 8, "do not fit together"),
        ("features", 31, "do not fit together"),
        ("learner", "forest", "learner is 'forest'"),
        ("seed", None, "not that of a mach repetition"),
        ("repetition", -1, "counts from 0"),
    ],
)
@pytest.mark.parametrize("make", [_linear, _mlp])
def test_a_header_that_does_not_go_with_the_arrays_is_refused(make, key, value, message, tmp_path):
    make(_part()).save(tmp_path)
    header = json.loads((tmp_path / "header.json").read_text())
    (tmp_path / "header.json").write_text(json.dumps({**header, key: value}))
    with pytest.raises(InputError, match=message):
        load_repetition(tmp_path)


def test_damaged_weights_are_an_error_and_not_a_crash():
    whole = _linear(_part())
    wild = LinearRepetition(
        whole.part, whole.indptr, np.full_like(whole.buckets, 60_000), whole.values, whole.bias
    )
    with pytest.raises(InputError, match=r"repetition 2: .*damaged"):
        wild.margins(_rows())


@given(st.integers(0, 2**32), st.integers(2, 60))
def test_hashed_rows_are_signed_sums_with_the_length_they_had(seed, columns):
    X = _rows(seed)
    found = as_csr(hashed_rows(X, columns, 1, 2).to_scipy(), cols=columns)
    units = hashed_rows(as_csr(sp.identity(30, dtype=np.float32, format="csr")), columns, 1, 2).to_scipy()
    assert set(np.abs(units.data)) == {1.0}
    assert np.array_equal(np.diff(units.indptr), np.ones(30))
    summed = (X.to_scipy().astype(np.float64) @ units).toarray()
    lengths = np.linalg.norm(X.to_scipy().toarray(), axis=1)
    after = np.linalg.norm(summed, axis=1)
    expected = summed * (lengths / np.where(after > 0, after, 1))[:, None]
    assert np.allclose(found.to_scipy().toarray(), expected, atol=1e-4)


def test_rows_are_hashed_block_by_block_to_the_same_bits(monkeypatch):
    X = _rows(rows=60)
    whole = hashed_rows(X, 9, 1, 2)
    for entries in (1, 7, 50):
        monkeypatch.setattr(feature_hashing, "_BLOCK_ENTRIES", entries)
        cut = hashed_rows(X, 9, 1, 2)
        for name in ("indptr", "indices", "data"):
            assert getattr(cut, name).tobytes() == getattr(whole, name).tobytes()
    assert hashed_rows(_rows(rows=0), 9, 1, 2).shape == (0, 9)


def test_hashing_holds_little_more_than_what_comes_out(monkeypatch):
    X = as_csr(sp.random(20_000, 500, 0.05, format="csr", random_state=0, dtype=np.float32))
    monkeypatch.setattr(feature_hashing, "_BLOCK_ENTRIES", 1 << 12)
    hashed_rows(X, 100, 1, 2)
    tracemalloc.start()
    hashed_rows(X, 100, 1, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * X.nnz + 8 * X.shape[0] + 150 * (1 << 12)


def test_repetitions_hash_features_differently():
    X = as_csr(sp.identity(50, dtype=np.float32, format="csr"))
    one, other = (hashed_rows(X, 20, 0, repetition) for repetition in (0, 1))
    assert not np.array_equal(one.indices, other.indices)
    assert (one.data < 0).any()
    assert (one.data > 0).any()
