"""Fusion against a dictionary-based reference, and the properties any fusion must have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.predictions import Predictions

N_LABELS = 20
WAYS = [("average", "min-max"), ("rank", "min-max"), ("normalised", "min-max"), ("normalised", "softmax")]


def member(seed, rows=15, k=6, negative=False):
    rng = np.random.default_rng(seed)
    labels = np.full((rows, k), -1)
    scores = np.full((rows, k), -np.inf)
    for i in range(rows):
        n = int(rng.integers(0, k + 1))
        labels[i, :n] = rng.permutation(N_LABELS)[:n]
        scores[i, :n] = rng.integers(0, 9, n) / 8 - (0.5 if negative else 0.0)
    return Predictions.ranked(labels, scores)


def pairs(predictions, row):
    return [
        (int(j), float(s))
        for j, s in zip(predictions.labels[row], predictions.scores[row], strict=True)
        if j >= 0
    ]


def normalised(scores, norm):
    if norm == "softmax":
        powers = np.exp(np.array(scores) - max(scores))
        return powers / powers.sum()
    low, high = min(scores), max(scores)
    return [(s - low) / (high - low) if high > low else 1.0 for s in scores]


def slow_fuse(members, method, weights, norm):
    """Per row, {label: fused score}."""
    for row in range(members[0].rows):
        fused = {}
        for one, weight in zip(members, weights, strict=True):
            found = pairs(one, row)
            scores = [s for _, s in found]
            if method == "rank":
                scores = [1 / (60 + rank) for rank in range(1, len(found) + 1)]
            elif method == "normalised" and scores:
                scores = normalised(scores, norm)
            for (label, _), score in zip(found, scores, strict=True):
                fused[label] = fused.get(label, 0.0) + weight * score / sum(weights)
        yield fused


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(WAYS), st.integers(1, 5), st.integers(1, 30))
def test_fused_scores_are_the_weighted_mean(seed, way, n_members, top_k):
    method, norm = way
    members = [member(seed + i, k=3 + i) for i in range(n_members)]
    weights = np.random.default_rng(seed).random(n_members) + 0.1
    fused = fuse(members, method, weights, top_k, norm=norm).check(N_LABELS)
    for row, expected in enumerate(slow_fuse(members, method, weights, norm)):
        found = pairs(fused, row)
        assert len(found) == min(top_k, len(expected))
        best = sorted(expected.values(), reverse=True)[:top_k]
        np.testing.assert_allclose([s for _, s in found], best, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose([expected[j] for j, _ in found], best, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("method", "norm"), WAYS)
def test_one_member_keeps_its_order(method, norm):
    one = member(3, rows=200, negative=method != "average")
    fused = fuse([one], method, norm=norm, top_k=one.k)
    np.testing.assert_array_equal(fused.labels, one.labels)


def test_one_member_averaged_keeps_its_scores():
    one = member(4, rows=200)
    for weights in (None, [0.3]):
        fused = fuse([one] * (1 if weights else 3), weights=weights, top_k=one.k)
        np.testing.assert_array_equal(fused.labels, one.labels)
        np.testing.assert_array_equal(fused.scores, one.scores)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(WAYS), st.permutations(range(4)))
def test_the_order_of_members_does_not_matter(seed, way, order):
    members = [member(seed + i) for i in range(4)]
    weights = np.random.default_rng(seed).random(4)
    first = fuse(members, way[0], weights, norm=way[1])
    second = fuse([members[i] for i in order], way[0], weights[order], norm=way[1])
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.scores, second.scores)


@pytest.mark.parametrize(("method", "norm"), WAYS)
def test_a_row_fuses_the_same_whatever_rows_are_beside_it(method, norm):
    members = [member(i, rows=30) for i in range(3)]
    whole = fuse(members, method, [1, 0.3, 0.7], norm=norm)
    for start, stop in ((0, 1), (1, 30)):
        part = fuse([m.slice_rows(start, stop) for m in members], method, [1, 0.3, 0.7], norm=norm)
        np.testing.assert_array_equal(part.labels, whole.labels[start:stop])
        np.testing.assert_array_equal(part.scores, whole.scores[start:stop])


def test_equal_scores_are_ordered_by_label():
    a = Predictions([[7, 2]], [[0.5, 0.25]])
    b = Predictions([[2, 7]], [[0.5, 0.25]])
    assert fuse([a, b]).labels.tolist() == [[2, 7, -1, -1]]
    assert fuse([b, a], "rank").labels[0, :2].tolist() == [2, 7]


def test_missing_gives_negative_scores_a_floor():
    a = Predictions([[1, 2]], [[-0.1, -3.0]])
    b = Predictions([[1, 3]], [[-0.5, -1.0]])
    fused = fuse([a, b], missing=-10.0)
    assert fused.labels.tolist() == [[1, 3, 2, -1]]
    np.testing.assert_allclose(fused.scores[0, :3], [-0.3, -5.5, -6.5], rtol=1e-6)


def test_rows_without_predictions_stay_empty():
    empty = Predictions([[-1, -1]], [[-np.inf, -np.inf]])
    for method, norm in WAYS:
        assert fuse([empty, empty], method, norm=norm).labels.tolist() == [[-1] * 4]
    no_rows = Predictions(np.empty((0, 3), np.int32), np.empty((0, 3)))
    assert fuse([no_rows], top_k=2).labels.shape == (0, 2)


def test_very_large_and_very_small_scores_are_not_lost():
    a = Predictions([[1, 2, 3]], [[3e38, 1.0, 1e-30]])
    fused = fuse([a, a], top_k=3)
    np.testing.assert_array_equal(fused.labels, a.labels)
    assert fused.scores[0, 0] == np.float32(3e38)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"members": []}, "no members"),
        ({"members": [member(0), member(1, rows=3)]}, "rows"),
        ({"members": [member(0, negative=True)]}, "negative scores"),
        ({"members": [Predictions([[1, 1]], [[1.0, 1.0]])]}, "member 0, row 0"),
        ({"members": [Predictions([[1]], [[np.nan]])]}, "NaN"),
        ({"method": "vote"}, "vote"),
        ({"norm": "z"}, "norm"),
        ({"top_k": 0}, "top_k"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"weights": [-1.0]}, "weights"),
        ({"weights": [0.0]}, "weights"),
        ({"weights": [np.nan]}, "weights"),
        ({"missing": np.inf}, "missing"),
    ],
)
def test_bad_input_is_refused_with_a_reason(arguments, message):
    with pytest.raises(InputError, match=message):
        fuse(**{"members": [member(0)], **arguments})
