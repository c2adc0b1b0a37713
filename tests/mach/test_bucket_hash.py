"""Buckets are what the formula says, for every label and number of buckets, and two labels meet no more often than
2-universal hashing promises."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.mach.hashing import PRIME, BucketHash

LABEL = st.one_of(st.integers(0, 2000), st.integers(0, PRIME - 1), st.integers(PRIME - 2000, PRIME - 1))
BUCKETS = st.one_of(
    st.integers(2, 300),
    st.integers(2, PRIME),
    st.sampled_from([2**16, 2**16 + 1, 2**30, 2**30 + 1, PRIME - 1]),
)


@settings(deadline=None)
@given(st.lists(LABEL, max_size=70), BUCKETS, st.integers(0, 2**63 - 1), st.integers(0, 10_000))
@example([0, 1, PRIME - 1], PRIME, 0, 0)
def test_buckets_are_those_of_the_formula(labels, buckets, seed, repetition):
    bucket_hash = BucketHash(buckets, seed, repetition)
    a, b = bucket_hash.parameters
    assert 1 <= a < PRIME
    assert 0 <= b < PRIME
    found = bucket_hash.of(np.array(labels, np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == [((a * label + b) % PRIME) % buckets for label in labels]


def test_the_shape_of_the_ids_is_kept():
    assert BucketHash(5, 0, 0).of(np.arange(6, dtype=np.uint16).reshape(2, 3)).shape == (2, 3)


def test_seed_and_repetition_decide_and_nothing_else():
    labels = np.arange(1000)
    draws = {(s, r): BucketHash(50, s, r).of(labels).tobytes() for s in range(4) for r in range(4)}
    assert len(set(draws.values())) == 16
    assert draws[1, 2] == BucketHash(50, 1, 2).of(labels).tobytes()


@pytest.mark.parametrize("buckets", [2, 10, 64, 1000])
def test_two_labels_meet_no_more_often_than_once_in_b_draws(buckets):
    one, other = np.array(
        [[0, 1], [7, 7 + buckets], [3, 3 + 17 * buckets], [0, PRIME - 1], [12345, 2**30], [5, 10]]
    ).T
    draws = 3000
    meetings = np.zeros(len(one))
    for seed in range(draws):
        bucket_hash = BucketHash(buckets, seed, seed % 5)
        meetings += bucket_hash.of(one) == bucket_hash.of(other)
    expected = draws / buckets
    spread = 5 * np.sqrt(expected)
    assert (meetings <= expected + spread).all()
    assert (
        meetings >= expected - spread
    ).all()  # nor less often, beyond chance: the unbiased estimate needs it


def test_the_buckets_of_consecutive_labels_are_about_equally_full():
    counts = np.bincount(BucketHash(100, 3, 1).of(np.arange(100_000)), minlength=100)
    assert len(counts) == 100
    assert abs(counts - 1000).max() < 250


@pytest.mark.parametrize("label", [-1, PRIME, 2**40])
def test_a_label_outside_the_hashed_range_is_refused(label):
    with pytest.raises(InputError, match=f"label id {label} is outside"):
        BucketHash(10, 0, 0).of(np.array([3, label]))


def test_other_things_that_cannot_be_hashed_are_refused():
    with pytest.raises(InputError, match="integers are needed"):
        BucketHash(10, 0, 0).of(np.array([0.5]))
    for buckets in (1, 0, PRIME + 1):
        with pytest.raises(InputError, match=f"buckets is {buckets}"):
            BucketHash(buckets, 0, 0)
    for seed, repetition in ((-1, 0), (0, -1)):
        with pytest.raises(InputError, match="count repetitions from 0"):
            BucketHash(10, seed, repetition)
