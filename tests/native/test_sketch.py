"""Margins of buckets and what they become are those of the search, bit for bit; the sketch's kernels give the same bits
on every instruction set."""

import hashlib
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark._native.sketch import margins, transform
from xmcspark.errors import InputError
from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.recovery import AGGREGATES, Recipe, Recovery
from xmcspark.matchers.scoring import TRANSFORMS, Scoring
from xmcspark.matchers.search import PackedLevel, Searcher
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree


def random_matrix(rng, rows, cols, density, scale=1.0):
    matrix = sp.random(rows, cols, density, format="csr", random_state=rng, dtype=np.float32)
    matrix.data = (scale * rng.standard_normal(matrix.nnz)).astype(np.float32)
    return as_csr(matrix)


def by_feature(W, dtype):
    """indptr, buckets, values of weights given as one row a bucket."""
    turned = W.transpose()
    return turned.indptr, turned.indices.astype(dtype), turned.data


def searched(W, bias, X, scoring):
    """The same scores by the search, as a tree of one node."""
    tree = LabelTree.root_only(len(bias))
    level = PackedLevel.of(W, bias, tree.child_ptr[0])
    everything = sp.csr_matrix(np.ones((X.shape[0], len(bias)), np.float32))
    found = Searcher(tree, (level,), X.shape[1], scoring).score(X, everything)
    return found.data.reshape(X.shape[0], len(bias))


FORMS = [
    Scoring(name, combine)
    for name, combine in product(TRANSFORMS, ("product", "sum"))
    if combine == "sum" or not (name == "identity" or name.startswith("log-"))
]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 150),
    features=st.integers(1, 30),
    buckets=st.integers(1, 50),
    density=st.sampled_from([0.0, 0.1, 0.7]),
    dtype=st.sampled_from([np.uint16, np.int32]),
    threads=st.integers(1, 3),
)
def test_margins_are_added_bias_first_and_then_by_feature(
    seed, rows, features, buckets, density, dtype, threads
):
    rng = np.random.default_rng(seed)
    W, X = random_matrix(rng, buckets, features, density), random_matrix(rng, rows, features, density)
    bias = rng.standard_normal(buckets).astype(np.float32)
    expected = np.repeat(bias[None], rows, axis=0)
    dense = W.to_scipy().toarray()
    present = W.to_scipy().astype(bool).toarray()
    for row in range(rows):
        for p in range(X.indptr[row], X.indptr[row + 1]):
            weights = present[:, X.indices[p]]
            expected[row, weights] += X.data[p] * dense[weights, X.indices[p]]
    found = margins(X, *by_feature(W, dtype), bias, threads)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("scoring", FORMS, ids=lambda s: f"{s.transform}-{s.combine}")
def test_scores_of_buckets_are_those_of_the_search(scoring):
    rng = np.random.default_rng(8)
    W, X = random_matrix(rng, 300, 20, 0.3, 2.0), random_matrix(rng, 40, 20, 0.4, 2.0)
    bias = rng.standard_normal(300).astype(np.float32)
    bias[:8] = [0.0, 1.0, -1.0, 90.0, -90.0, 800.0, -800.0, 1e-30]
    found = margins(X, *by_feature(W, np.uint16), bias)
    transform(found, *scoring.kernel_form, threads=2)
    assert found.tobytes() == searched(W, bias, X, scoring).tobytes()


def test_margins_can_be_written_where_rows_lie_apart():
    rng = np.random.default_rng(2)
    W, X = random_matrix(rng, 9, 6, 0.5), random_matrix(rng, 70, 6, 0.5)
    bias = rng.standard_normal(9).astype(np.float32)
    P = np.full((70, 3, 9), 7.0, np.float32)
    weights = by_feature(W, np.uint16)
    margins(X, *weights, bias, 2, P[:, 1])
    np.testing.assert_array_equal(P[:, 1], margins(X, *weights, bias))
    assert (P[:, [0, 2]] == 7.0).all()
    with pytest.raises(InputError, match="in one piece"):
        margins(X, *weights, bias, 1, np.empty((9, 70), np.float32).T)
    with pytest.raises(InputError, match="they must agree"):
        margins(X, *weights, bias, 1, np.empty((70, 8), np.float32))


def test_damaged_weights_are_an_error():
    rng = np.random.default_rng(2)
    W, X = random_matrix(rng, 9, 6, 0.5), random_matrix(rng, 5, 6, 1.0)
    bias = np.zeros(9, np.float32)
    indptr, buckets, values = by_feature(W, np.int32)
    for place, wrong in ((3, 9), (0, -1)):
        broken = buckets.copy()
        broken[place] = wrong
        with pytest.raises(ValueError, match="damaged"):
            margins(X, indptr, broken, values, bias)
    for wrong in (-1, len(values) + 1, 2**40):
        broken = indptr.copy()
        broken[2] = wrong
        with pytest.raises(ValueError, match="damaged"):
            margins(X, broken, buckets, values, bias)
    with pytest.raises(InputError, match="X has 6 features"):
        margins(X, indptr[:-1], buckets, values, bias)
    with pytest.raises(InputError, match="weights"):
        margins(X, indptr, buckets, values[:-1], bias)


def digest_of_sketches() -> str:
    rng = np.random.default_rng(11)
    digest = hashlib.sha256()
    W, X = random_matrix(rng, 333, 50, 0.3), random_matrix(rng, 7, 50, 0.4)
    hashes = [BucketHash(333, 5, r) for r in range(6)]
    live = rng.random(20_000) < 0.9
    P = np.empty((7, 6, 333), np.float32)
    for r, bucket_hash in enumerate(hashes):
        digest.update(bucket_hash.of(np.arange(20_000) * 100_003).tobytes())
        margins(X, *by_feature(W, np.uint16), rng.standard_normal(333).astype(np.float32), 1, P[:, r])
    recovery = Recovery(hashes, live)
    for name in ("sigmoid", "l3-hinge", "l1-hinge"):
        changed = P.copy()
        transform(changed.reshape(-1, 333), *Scoring(name).kernel_form)
        digest.update(changed.tobytes())
        for aggregate, method, scoring in product(AGGREGATES, ("fast", "exact"), (None, Scoring(name))):
            recipe = Recipe(method, aggregate, 20, 1, scoring)
            found = recovery.find(changed if scoring is None else P, recipe, 12)
            digest.update(found.labels.tobytes() + found.scores.tobytes() + found.levels.tobytes())
    return digest.hexdigest()


def test_the_bits_do_not_depend_on_the_instruction_set():
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_sketch as t; "
    code += "print(t.digest_of_sketches())"
    for isa in ("generic", "avx2", "avx512"):
        environment = {**os.environ, "XMCSPARK_ISA": isa}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert run.stdout.strip() == digest_of_sketches(), run.stderr
