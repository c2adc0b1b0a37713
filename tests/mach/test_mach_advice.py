"""With as many repetitions as advised, labels that cannot be told apart are as rare as was asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.mach.advice import advice, buckets_for, collision_bound, repetitions_for, too_few
from xmcspark.mach.hashing import BucketHash


def _share_of_draws_with_a_collision(labels: int, buckets: int, repetitions: int, draws: int) -> float:
    """Of draws in which some two labels share their bucket in every repetition."""
    ids, collided = np.arange(labels), 0
    for seed in range(draws):
        signature = np.stack([BucketHash(buckets, seed, r).of(ids) for r in range(repetitions)], axis=1)
        collided += len(np.unique(signature, axis=0)) < labels
    return collided / draws


@pytest.mark.parametrize(
    ("labels", "buckets", "delta"), [(50, 5, 0.2), (20, 2, 0.1), (200, 30, 0.05), (120, 10, 0.5)]
)
def test_at_the_advised_repetitions_collisions_are_as_rare_as_tolerated(labels, buckets, delta):
    advised = repetitions_for(labels, buckets, delta)
    share = _share_of_draws_with_a_collision(labels, buckets, advised, 500)
    assert share <= delta
    assert share <= collision_bound(labels, buckets, advised) + 3 * np.sqrt(delta / 500)


@pytest.mark.parametrize(("labels", "buckets", "delta"), [(50, 5, 0.2), (20, 2, 0.1), (200, 30, 0.05)])
def test_two_repetitions_fewer_are_not_enough(labels, buckets, delta):
    advised = repetitions_for(labels, buckets, delta)
    assert _share_of_draws_with_a_collision(labels, buckets, advised - 2, 200) > delta


@given(st.integers(2, 10**9), st.integers(2, 10**5), st.floats(1e-9, 0.99))
def test_repetitions_are_the_least_whole_number_of_the_formula(labels, buckets, delta):
    repetitions = repetitions_for(labels, buckets, delta)
    formula = 2 * np.log(labels / np.sqrt(delta)) / np.log(buckets)
    assert max(1.0, formula) - 1e-6 <= repetitions <= max(1.0, formula) + 1 + 1e-6
    assert collision_bound(labels, buckets, repetitions) <= delta / 2


@given(st.integers(2, 10**9), st.integers(1, 64), st.floats(1e-9, 0.99))
def test_buckets_are_the_fewest_for_which_the_repetitions_are_enough(labels, repetitions, delta):
    buckets = buckets_for(labels, repetitions, delta)
    assert repetitions_for(labels, buckets, delta) <= repetitions
    assert buckets == 2 or repetitions_for(labels, buckets - 1, delta) > repetitions


def test_exact_powers_need_no_repetition_more():
    assert repetitions_for(1000, 10, 0.5**2) == 7  # 10^6 / 0.25 = 4 * 10^6
    assert repetitions_for(16, 2, 0.25) == 10  # 2^8 * 4
    assert buckets_for(16, 10, 0.25) == 2


def test_advice_warns_of_too_few_repetitions_only():
    warning = too_few(100_000, 1000, 3, 0.05)
    assert warning is not None
    assert "fewer than the 4" in warning
    assert "raise mach.repetitions or mach.buckets" in warning
    assert advice(100_000, 1000, 3, 0.05)[-1] == warning
    assert too_few(100_000, 1000, 4, 0.05) is None
    assert not any("fewer than the" in sentence for sentence in advice(100_000, 1000, 4, 0.05))


def test_advice_says_when_the_sketch_is_no_smaller_than_one_vs_all():
    assert any("method dismec or xr-linear" in sentence for sentence in advice(10_000, 1000, 10, 0.05))
    assert not any("dismec" in sentence for sentence in advice(10_001, 1000, 10, 0.05))


def test_nonsense_is_refused():
    with pytest.raises(InputError, match=r"buckets \(1\) at least 2"):
        repetitions_for(10, 1, 0.1)
    with pytest.raises(InputError, match="between 0 and 1"):
        buckets_for(10, 3, 1.5)
    with pytest.raises(InputError, match="at least 1 is needed"):
        buckets_for(10, 0, 0.5)
