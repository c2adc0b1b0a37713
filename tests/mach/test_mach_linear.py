"""A linear repetition is the matchers' one-vs-all training on bucket targets, with all that rows may carry."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.mach.linear import train_linear
from xmcspark.mach.repetition import LinearRepetition, Part
from xmcspark.mach.targets import bucket_relevance, bucket_targets
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree

ROWS, FEATURES, LABELS = 150, 40, 30
PART = Part(1, 4, 6, LABELS, FEATURES)


def _problem(seed: int = 0):
    """(X, Y) with soft targets; a label's rows share features."""
    rng = np.random.default_rng(seed)
    Y = sp.random(ROWS, LABELS, 0.06, format="csr", random_state=rng, dtype=np.float32)
    Y.data[:] = rng.choice([0.3, 1.0], Y.nnz)
    signal = sp.random(LABELS, FEATURES, 0.1, format="csr", random_state=rng, dtype=np.float32)
    noise = sp.random(ROWS, FEATURES, 0.1, format="csr", random_state=rng, dtype=np.float32)
    return as_csr(Y @ signal + noise), as_csr(Y)


def _same(one: LinearRepetition, other: LinearRepetition) -> bool:
    names = ("indptr", "buckets", "values", "bias")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_matchers_of_buckets_are_those_of_labels_that_are_the_buckets():
    X, Y = _problem()
    rng = np.random.default_rng(1)
    rows = {
        "row_keys": rng.permutation(ROWS),
        "row_weights": rng.choice([1.0, 2.0], ROWS),
        "row_negatives": rng.choice([0.1, 1.0], ROWS),
    }
    settings = TrainSettings(loss="logistic", threshold=0.0, seed=7)
    found = train_linear(X, Y, PART, settings, **rows)
    expected = train_matchers(
        X,
        bucket_targets(Y, PART.bucket_hash),
        LabelTree.root_only(6),
        replace(settings, seed=8),
        **rows,
    )
    assert _same(found, LinearRepetition.of(PART, expected.matchers[0]))


def test_relevance_counts_and_is_summed_in_a_bucket():
    X, Y = _problem()
    costly = TrainSettings(cost_sensitive=True, threshold=0.0)
    R = as_csr(Y.to_scipy() * 3)
    found = train_linear(X, Y, PART, costly, relevance=R)
    expected = train_matchers(
        X,
        bucket_targets(Y, PART.bucket_hash),
        LabelTree.root_only(6),
        replace(costly, seed=1),
        relevance=bucket_relevance(R, PART.bucket_hash),
    )
    assert _same(found, LinearRepetition.of(PART, expected.matchers[0]))
    assert not _same(found, train_linear(X, Y, PART, costly))


def test_hashed_inputs_train_on_fewer_columns():
    X, Y = _problem()
    part = replace(PART, hashed_features=16)
    found = train_linear(X, Y, part, TrainSettings(threshold=0.0))
    assert len(found.indptr) == 17
    assert found.margins(X).shape == (ROWS, 6)


def test_the_answer_does_not_depend_on_threads():
    X, Y = _problem()
    assert _same(train_linear(X, Y, PART, threads=1), train_linear(X, Y, PART, threads=3))


def test_buckets_without_positive_rows_say_no():
    X, Y = _problem()
    part = replace(PART, buckets=29)
    empty = np.setdiff1d(np.arange(29), bucket_targets(Y, part.bucket_hash).indices)
    assert len(empty)
    assert (train_linear(X, Y, part).margins(X)[:, empty] < -0.5).all()


def test_inputs_of_another_sketch_are_refused():
    X, Y = _problem()
    with pytest.raises(InputError, match="Y has 30 columns"):
        train_linear(X, Y, replace(PART, labels=31))
    with pytest.raises(InputError, match="X has 40 columns"):
        train_linear(X, Y, replace(PART, features=41))
    with pytest.raises(InputError, match="targets lie in"):
        train_linear(X, as_csr(Y.to_scipy() * 4), PART)
