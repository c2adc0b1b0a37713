"""A bucket's target is the largest of its labels' targets, whatever their order; nothing is binarised."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.targets import bucket_relevance, bucket_targets, live_labels
from xmcspark.sparse.csr import Csr, as_csr


def _random_targets(seed: int, rows: int, labels: int) -> Csr:
    rng = np.random.default_rng(seed)
    Y = sp.random(rows, labels, 0.3, format="csr", random_state=rng, dtype=np.float32)
    Y.data[:] = rng.choice([0.125, 0.5, 1.0], Y.nnz)
    return as_csr(Y)


@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(3, 40), st.integers(2, 12))
def test_targets_are_the_largest_and_relevance_the_sum_over_a_buckets_labels(seed, rows, labels, buckets):
    Y, bucket_hash = _random_targets(seed, rows, labels), BucketHash(buckets, seed, 3)
    dense, places = Y.to_scipy().toarray(), bucket_hash.of(np.arange(labels))
    largest, summed = np.zeros((rows, buckets), np.float32), np.zeros((rows, buckets), np.float32)
    for label, bucket in enumerate(places):
        largest[:, bucket] = np.maximum(largest[:, bucket], dense[:, label])
        summed[:, bucket] += dense[:, label]
    for found, expected in (
        (bucket_targets(Y, bucket_hash), largest),
        (bucket_relevance(Y, bucket_hash), summed),
    ):
        assert found.shape == (rows, buckets)
        assert np.array_equal(found.to_scipy().toarray(), expected)
        as_csr(found.to_scipy(), "strictly increasing")
        assert found.nnz == np.count_nonzero(expected)


def test_labels_without_positives_are_not_live():
    Y = as_csr(sp.csr_matrix(([1.0, 0.25, 0.0], ([0, 1, 2], [0, 3, 2])), shape=(3, 5), dtype=np.float32))
    assert live_labels(Y).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("bad", [-1, 5])
def test_a_label_outside_of_the_hashed_range_is_refused(bad):
    Y = Csr(np.array([0, 1]), np.array([bad], np.int32), np.ones(1, np.float32), (1, 5))
    for look in (lambda: bucket_targets(Y, BucketHash(2, 0, 0)), lambda: live_labels(Y)):
        with pytest.raises(InputError, match=rf"label id {bad} is outside 0\.\.4"):
            look()
