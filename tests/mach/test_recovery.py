"""Exact recovery is the ranking by definition; fast recovery is the ranking of what it may find, with the same scores;
ranges, threads and forms of input change nothing. What the aggregates promise holds over draws of the hash."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark._native.sketch import transform
from xmcspark.errors import InputError
from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.recovery import AGGREGATES, Found, Recipe, Recovery
from xmcspark.matchers.scoring import Scoring

# ---- the definitions, in numpy


def hashes_of(buckets, repetitions, seed=0):
    return [BucketHash(buckets, seed, r) for r in range(repetitions)]


def values_of(hashes, P, labels):
    """[rows, R, labels]: the scores of the labels' buckets."""
    return np.stack([P[:, r, h.of(labels)] for r, h in enumerate(hashes)], axis=1)


def scores_of(values, aggregate, buckets):
    """float32 [rows, labels], in the order of operations that recovery promises."""
    repetitions = values.shape[1]
    if aggregate == "min":
        return values.min(axis=1)
    if aggregate == "median":
        ordered = np.sort(values, axis=1)
        high, low = ordered[:, repetitions // 2], ordered[:, (repetitions - 1) // 2]
        return high if repetitions % 2 else (low + high) * np.float32(0.5)
    total = np.zeros(values[:, 0].shape, np.float32)
    for r in range(repetitions):
        total += values[:, r]
    mean = total / np.float32(repetitions)
    if aggregate == "mean":
        return mean
    return (mean - np.float32(1 / buckets)) * np.float32(buckets / (buckets - 1))


def levels_of(hashes, P, labels, top_buckets, min_count):
    """[rows, labels]: repetitions in which a label's bucket is among the best, at most min_count."""
    order = np.argsort(-P, axis=2, kind="stable")[:, :, :top_buckets]
    best = np.zeros(P.shape, bool)
    np.put_along_axis(best, order, True, axis=2)
    return np.minimum(values_of(hashes, best, labels).sum(axis=1), min_count)


def ranked(labels, scores, levels, k):
    """(labels, scores) of the k best by level, then score, then id; ordered by score, then id; padded."""
    out_labels, out_scores = np.full((len(scores), k), -1), np.full((len(scores), k), -np.inf, np.float32)
    for row, (row_scores, row_levels) in enumerate(zip(scores, levels, strict=True)):
        best = np.lexsort((labels, -row_scores, -row_levels))[:k]
        best = best[np.lexsort((labels[best], -row_scores[best]))]
        out_labels[row, : len(best)], out_scores[row, : len(best)] = labels[best], row_scores[best]
    return out_labels, out_scores


def assert_found(found, expected):
    np.testing.assert_array_equal(found.labels, expected[0])
    np.testing.assert_array_equal(found.scores, expected[1])
    found.check()


def same(one, other):
    assert one.labels.tobytes() == other.labels.tobytes()
    assert one.scores.tobytes() == other.scores.tobytes()


# ---- sketches to recover from


def random_scores(rng, rows, repetitions, buckets, kind):
    """Uniform; with many equal ones; a few large ones; or margins of both signs."""
    P = rng.random((rows, repetitions, buckets)).astype(np.float32)
    if kind == "equal":
        return np.round(P * 3) / np.float32(3) * np.float32(rng.choice([-1.0, 0.0, 1.0]))
    if kind == "few":
        return P**20
    return P if kind == "uniform" else (8 * P - 4).astype(np.float32)


SKETCH = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "labels": st.integers(1, 300),
        "buckets": st.integers(2, 90),
        "repetitions": st.integers(1, 9),
        "kind": st.sampled_from(["uniform", "equal", "few", "margins"]),
        "share": st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    }
)


def drawn(sketch, rows=3):
    rng = np.random.default_rng(sketch["seed"])
    hashes = hashes_of(sketch["buckets"], sketch["repetitions"], sketch["seed"])
    P = random_scores(rng, rows, sketch["repetitions"], sketch["buckets"], sketch["kind"])
    return rng, hashes, P, rng.random(sketch["labels"]) < sketch["share"]


@settings(deadline=None, max_examples=150)
@given(SKETCH, st.sampled_from(AGGREGATES), st.integers(1, 400), st.integers(1, 3))
def test_exact_recovery_is_the_ranking_of_all_live_labels(sketch, aggregate, k, threads):
    _, hashes, P, live = drawn(sketch)
    k = min(k, len(live))
    labels = np.flatnonzero(live)
    scores = scores_of(values_of(hashes, P, labels), aggregate, sketch["buckets"])
    found = Recovery(hashes, live).exact(P, top_k=k, aggregate=aggregate, threads=threads)
    assert_found(found, ranked(labels, scores, np.zeros(scores.shape), k))


@settings(deadline=None, max_examples=300)
@given(
    SKETCH,
    st.sampled_from(AGGREGATES),
    st.integers(1, 400),
    st.integers(1, 120),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_fast_recovery_is_the_ranking_of_the_labels_found(sketch, aggregate, k, top_buckets, count, threads):
    _, hashes, P, live = drawn(sketch)
    k, count = min(k, len(live)), min(count, len(hashes))
    labels = np.flatnonzero(live)
    scores = scores_of(values_of(hashes, P, labels), aggregate, sketch["buckets"])
    levels = levels_of(hashes, P, labels, top_buckets, count)
    found = Recovery(hashes, live).fast(
        P, top_k=k, aggregate=aggregate, top_buckets=top_buckets, min_count=count, threads=threads
    )
    assert_found(found, ranked(labels, scores, levels, k))


@settings(deadline=None, max_examples=60)
@given(SKETCH, st.sampled_from(AGGREGATES), st.integers(1, 50))
def test_with_all_buckets_fast_is_exact(sketch, aggregate, k):
    _, hashes, P, live = drawn(sketch)
    k = min(k, len(live))
    recovery = Recovery(hashes, live)
    fast = recovery.fast(P, top_k=k, aggregate=aggregate, top_buckets=sketch["buckets"], min_count=1)
    same(fast, recovery.exact(P, top_k=k, aggregate=aggregate))


@settings(deadline=None, max_examples=80)
@given(
    SKETCH,
    st.sampled_from(AGGREGATES),
    st.sampled_from(["fast", "exact"]),
    st.integers(1, 30),
    st.integers(1, 40),
    st.integers(1, 300),
)
def test_ranges_merge_to_the_bits_of_the_whole(sketch, aggregate, method, k, top_buckets, at_once):
    rng, hashes, P, live = drawn(sketch, rows=4)
    k = min(k, len(live))
    recipe = Recipe(method, aggregate, top_buckets, int(rng.integers(1, len(hashes) + 1)))
    whole = Recovery(hashes, live).find(P, recipe, k).predictions
    bounds = [*range(0, len(live), at_once), len(live)]
    ranges = [Recovery(hashes, live, first=a, last=b) for a, b in pairwise(bounds)]
    same(Found.merged((part.find(P, recipe, k) for part in ranges), k).predictions, whole)


@pytest.mark.parametrize("transform_name", ["sigmoid", "l3-hinge", "log-l2-hinge", "log-sigmoid"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_margins_are_recovered_by_the_probabilities_they_become(transform_name, aggregate):
    rng = np.random.default_rng(1)
    hashes, labels = hashes_of(60, 5), np.arange(800)
    margins = (4 * rng.standard_normal((3, 5, 60))).astype(np.float32)
    scoring = Scoring(transform_name, "sum" if transform_name.startswith("log-") else "product")
    P = margins.copy()
    transform(P.reshape(-1, 60), *scoring.kernel_form)
    recovery, scores = (
        Recovery(hashes, np.ones(800, bool)),
        scores_of(values_of(hashes, P, labels), aggregate, 60),
    )
    exact = recovery.exact(margins, top_k=20, aggregate=aggregate, scoring=scoring)
    assert_found(exact, ranked(labels, scores, np.zeros(scores.shape), 20))
    how = {"aggregate": aggregate, "top_buckets": 7, "min_count": 2}
    fast = recovery.fast(margins, top_k=20, scoring=scoring, **how)
    # The best buckets are those of the largest margins, even where probabilities are all 1.
    assert_found(fast, ranked(labels, scores, levels_of(hashes, margins, labels, 7, 2), 20))


# ---- sizes that the small ones do not reach: several blocks of labels, long lists, many chunks


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(5)
    labels, buckets, repetitions, rows = 40_000, 700, 12, 11
    hashes, live = hashes_of(buckets, repetitions, 4), rng.random(labels) < 0.97
    P = (0.05 * rng.random((rows, repetitions, buckets)) ** 3).astype(np.float32)
    for row in range(rows):
        for place, label in enumerate(rng.choice(np.flatnonzero(live), 25)):
            for r, bucket_hash in enumerate(hashes):
                b = bucket_hash.of(np.array([label]))[0]
                P[row, r, b] = max(P[row, r, b], 0.9 / (1 + place) * rng.uniform(0.5, 1.0))
    return hashes, live, P


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_many_labels_are_recovered_by_definition(large, aggregate):
    hashes, live, P = large
    labels, recovery = np.flatnonzero(live), Recovery(hashes, live)
    scores = scores_of(values_of(hashes, P, labels), aggregate, 700)
    zero = np.zeros(scores.shape)
    assert_found(recovery.exact(P, top_k=50, aggregate=aggregate), ranked(labels, scores, zero, 50))
    for top_buckets, count in ((20, 1), (20, 3), (3, 6)):
        levels = levels_of(hashes, P, labels, top_buckets, count)
        found = recovery.fast(P, top_k=50, aggregate=aggregate, top_buckets=top_buckets, min_count=count)
        assert_found(found, ranked(labels, scores, levels, 50))


def test_threads_one_row_or_many_and_users_at_the_same_time_give_the_same_bits(large):
    hashes, live, P = large
    recovery = Recovery(hashes, live)
    for recipe in (Recipe("exact"), Recipe("fast", top_buckets=15), Recipe("fast", "median", 15, 2)):
        whole = recovery.find(P, recipe, 10)
        same(recovery.find(P, recipe, 10, threads=3), whole)
        with ThreadPoolExecutor(3) as pool:
            one_by_one = list(pool.map(lambda row, how=recipe: recovery.find(row, how, 10), P))
        rows = [np.concatenate(a) for a in zip(*(vars(f).values() for f in one_by_one), strict=True)]
        same(Found(*rows), whole)


def test_buckets_beyond_16_bits_are_recovered(large):
    rng = np.random.default_rng(0)
    buckets, hashes, live = 70_000, hashes_of(70_000, 3, 1), np.ones(3000, bool)
    P = rng.random((2, 3, buckets)).astype(np.float32)
    labels = np.arange(3000)
    scores = scores_of(values_of(hashes, P, labels), "mean", buckets)
    recovery = Recovery(hashes, live)
    assert_found(recovery.exact(P, top_k=30), ranked(labels, scores, np.zeros(scores.shape), 30))
    levels = levels_of(hashes, P, labels, 5000, 2)
    assert_found(
        recovery.fast(P, top_k=30, top_buckets=5000, min_count=2), ranked(labels, scores, levels, 30)
    )
    assert recovery.exact_bytes == 3 * 3008 * 4  # rounded up to whole vectors
    assert recovery.fast_bytes == 3 * 4 * (3000 + buckets + 1)


def test_several_blocks_of_the_index_are_recovered_by_definition():
    rng = np.random.default_rng(3)
    labels, hashes = np.arange(1_100_000), hashes_of(300, 2, 7)
    P = (rng.random((2, 2, 300)) ** 8).astype(np.float32)
    recovery = Recovery(hashes, np.ones(len(labels), bool), threads=2)
    for aggregate, top_buckets, count in (("mean", 4, 1), ("mean", 4, 2), ("min", 3, 1), ("mean", 1, 2)):
        scores = scores_of(values_of(hashes, P, labels), aggregate, 300)
        levels = levels_of(hashes, P, labels, top_buckets, count)
        how = {"aggregate": aggregate, "top_buckets": top_buckets, "min_count": count}
        assert_found(recovery.fast(P, top_k=100, **how), ranked(labels, scores, levels, 100))


def test_asked_for_more_labels_fast_looks_at_more_buckets(large):
    hashes, live, P = large
    recovery = Recovery(hashes, live)
    for k, top_buckets in ((1, 20), (5, 20), (30, 120)):
        same(recovery.fast(P, top_k=k), recovery.fast(P, top_k=k, top_buckets=top_buckets))


def test_memory_is_what_the_docstring_says():
    recovery = Recovery(hashes_of(50, 4), np.arange(1000) % 2 == 0)
    assert recovery.exact_bytes == 4 * 512 * 2
    assert recovery.fast_bytes == 4 * 4 * (500 + 51)


# ---- what the aggregates promise


def draws_of(labels, buckets, repetitions, draws):
    """[draws, R, labels]: buckets."""
    every = np.arange(labels)
    return np.array(
        [[BucketHash(buckets, seed, r).of(every) for r in range(repetitions)] for seed in range(draws)]
    )


def bucket_reduce(of_labels, places, buckets, how):
    """What each label's bucket holds, for each draw and repetition, if a bucket is the sum or max of its labels."""
    held = np.zeros((*places.shape[:2], buckets))
    how.at(held, (*np.indices(places.shape)[:2], places), of_labels)
    return np.take_along_axis(held, places, axis=2)


@pytest.mark.parametrize("buckets", [2, 5, 20])
def test_the_unbiased_estimate_is_right_on_average_over_draws_of_the_hash(buckets):
    rng = np.random.default_rng(buckets)
    labels, draws = 40, 4000
    p = rng.dirichlet(np.full(labels, 0.3))
    mean = bucket_reduce(p, draws_of(labels, buckets, 2, draws), buckets, np.add).mean(axis=1)
    estimates = buckets / (buckets - 1) * (mean - 1 / buckets)
    error = estimates.mean(axis=0) - p
    deviation = estimates.std(axis=0) / np.sqrt(draws)
    assert (np.abs(error) <= 5 * deviation + 1e-9).all()
    assert (mean.mean(axis=0) - p > 5 * deviation)[p < 0.5].all()  # which the mean is not


@pytest.mark.parametrize("buckets", [5, 20])
def test_with_several_labels_aggregates_never_fall_short_and_exceed_by_the_collision_mass_at_most(buckets):
    rng = np.random.default_rng(buckets)
    labels, draws, repetitions = 40, 1500, 3
    y = np.where(rng.random(labels) < 0.2, rng.uniform(0.2, 1.0, labels), 0.0)  # soft targets
    places = draws_of(labels, buckets, repetitions, draws)
    held = bucket_reduce(y, places, buckets, np.maximum)
    mass = bucket_reduce(y, places, buckets, np.add) - y
    for joined in (held.mean(axis=1), held.min(axis=1), np.median(held, axis=1)):
        assert (joined >= y - 1e-12).all()
    assert (held.mean(axis=1) <= y + mass.mean(axis=1) + 1e-12).all()
    assert (held.min(axis=1) <= y + mass.min(axis=1) + 1e-12).all()
    over = held.mean(axis=1) - y
    expected = (y.sum() - y) / buckets
    assert (over.mean(axis=0) <= expected + 5 * over.std(axis=0) / np.sqrt(draws)).all()


def test_the_kernel_computes_the_estimate():
    P = np.array([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]], np.float32)
    hashes = hashes_of(3, 2)
    values = values_of(hashes, P, np.arange(6))[0].astype(np.float64)
    found = Recovery(hashes, np.ones(6, bool)).exact(P, top_k=6, aggregate="unbiased")
    expected = 3 / 2 * (values.mean(axis=0) - 1 / 3)
    np.testing.assert_allclose(found.scores[0], expected[found.labels[0]], atol=1e-6)


# ---- what cannot be recovered


def small():
    return Recovery(hashes_of(5, 3), np.array([True, False, True, True]))


def test_fewer_live_labels_than_asked_for_are_padded():
    P = np.random.default_rng(0).random((2, 3, 5)).astype(np.float32)
    for found in (small().exact(P, top_k=4), small().fast(P, top_k=4, top_buckets=1)):
        assert (found.labels[:, 3] == -1).all()
        assert np.isneginf(found.scores[:, 3]).all()
        assert [sorted(row) for row in found.labels[:, :3].tolist()] == [[0, 2, 3]] * 2
    none = Recovery(hashes_of(5, 3), np.zeros(4, bool))
    for found in (none.exact(P, top_k=2), none.fast(P, top_k=2)):
        assert (found.labels == -1).all()


def test_no_rows_are_no_predictions():
    assert small().exact(np.empty((0, 3, 5), np.float32), top_k=2).labels.shape == (0, 2)
    assert small().fast(np.empty((0, 3, 5), np.float32), top_k=2).labels.shape == (0, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9])
@pytest.mark.parametrize("place", [0, 4])
def test_scores_that_are_not_finite_are_refused_with_their_row(bad, place):
    P = np.zeros((2, 3, 5), np.float32)
    recovery = small()
    before = recovery.fast(P, top_k=2)
    P[1, 2, place] = bad
    for recover in (recovery.exact, recovery.fast):
        with pytest.raises(InputError, match="row 1: a bucket's score is NaN or beyond 1e8"):
            recover(P, top_k=2)
    same(recovery.fast(np.zeros((2, 3, 5), np.float32), top_k=2), before)


def test_what_does_not_fit_is_refused_before_any_work():
    P = np.zeros((1, 3, 5), np.float32)
    for k in (0, 5):
        with pytest.raises(InputError, match=f"top_k is {k} with 4 labels"):
            small().fast(P, top_k=k)
    with pytest.raises(InputError, match=r"float32 \[rows, 3, 5\]"):
        small().exact(np.zeros((1, 3, 6), np.float32), top_k=1)
    with pytest.raises(InputError, match="float64"):
        small().exact(np.zeros((1, 3, 5)), top_k=1)
    with pytest.raises(InputError, match="min_count is 4 with 3 repetitions"):
        small().fast(P, top_k=1, min_count=4)
    with pytest.raises(InputError, match="top_buckets is -1"):
        small().fast(P, top_k=1, top_buckets=-1)
    with pytest.raises(InputError, match="aggregate is 'mode'"):
        small().exact(P, top_k=1, aggregate="mode")
    with pytest.raises(InputError, match="all need the same number"):
        Recovery([BucketHash(5, 0, 0), BucketHash(6, 0, 1)], np.ones(4, bool))
    with pytest.raises(InputError, match="0 repetitions"):
        Recovery([], np.ones(4, bool))
    with pytest.raises(InputError, match="a bool for each"):
        Recovery(hashes_of(5, 3), np.ones(4, np.int32))
    with pytest.raises(InputError, match="the range 2 to 9"):
        Recovery(hashes_of(5, 3), np.ones(4, bool), first=2, last=9)
