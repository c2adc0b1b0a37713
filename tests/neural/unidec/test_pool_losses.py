"""Losses over a pool equal the equations, written as loops: values and gradients, in both directions."""

import math

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.neural.unidec.losses import UNLIKE, Pairs, PoolLoss, binary_cross_entropy

KINDS = ("decoupled-softmax", "supcon", "infonce", "triplet")


def pairs_of(targets: np.ndarray, rng: np.random.Generator) -> Pairs:
    """All positive cells; one of each row and of each column stands for it where only one may."""
    row, column = np.nonzero(targets)
    order = rng.permutation(len(row))
    one_of_row, one_of_column = np.zeros(len(row), bool), np.zeros(len(row), bool)
    for flags, numbers in ((one_of_row, row), (one_of_column, column)):
        _, first = np.unique(numbers[order], return_index=True)
        flags[order[first]] = True
    arrays = (row, column, targets[row, column].astype(np.float32), one_of_row, one_of_column)
    return Pairs(*(torch.from_numpy(array) for array in arrays))


def slow_cost(kind, row, p, positives, margin, hardest):
    """ℓ(p) of one row of scores: the equation by itself."""
    negatives = [n for n in range(len(row)) if n not in positives]
    if kind == "triplet":
        worst = sorted((row[n] for n in negatives), key=lambda s: s.item(), reverse=True)[:hardest]
        wrong = [torch.clamp(s - row[p] + margin, min=0) for s in worst]
        return sum(wrong) / len(wrong) if wrong else row[p] * 0
    competing = [*negatives, p] if kind == "decoupled-softmax" else range(len(row))
    return -torch.log(torch.exp(row[p]) / sum(torch.exp(row[n]) for n in competing))


def slow_one_way(kind, scores, targets, picked, weight, margin, hardest):
    """The mean over rows with a positive of the weighted mean of their pairs; `weight` of rows."""
    total, counted = scores.sum() * 0, 0.0
    for i in range(len(scores)):
        positives = {p for p in range(scores.shape[1]) if targets[i, p] > 0}
        used = [p for p in positives if picked is None or (i, p) in picked]
        share = sum(targets[i, p] for p in used)
        if not share:
            continue
        costs = sum(targets[i, p] * slow_cost(kind, scores[i], p, positives, margin, hardest) for p in used)
        total, counted = total + weight[i] * costs / share, counted + weight[i]
    return total / counted if counted else total


def slow_loss(loss, similarity, targets, pairs, temperature, weights):
    scores = similarity if loss.kind == "triplet" else similarity / temperature
    picked = back_picked = None
    if loss.one_positive or loss.kind == "infonce":
        cells = list(zip(pairs.row.tolist(), pairs.column.tolist(), strict=True))
        picked = {c for c, one in zip(cells, pairs.one_of_row.tolist(), strict=True) if one}
        back_picked = {c[::-1] for c, one in zip(cells, pairs.one_of_column.tolist(), strict=True) if one}
    there = slow_one_way(loss.kind, scores, targets, picked, weights, loss.margin, loss.hardest)
    weighed = (targets * weights[:, None]).T
    ones = np.ones(targets.shape[1])
    back = slow_one_way(loss.kind, scores.T, weighed, back_picked, ones, loss.margin, loss.hardest)
    return loss.query_share * there + (1 - loss.query_share) * back


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    queries, labels = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    density = draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))  # none and all positive are among them
    targets = (rng.random((queries, labels)) < density) * 1.0
    if draw(st.booleans()):
        targets = targets * rng.choice([0.25, 0.5, 1.0], targets.shape)
    weights = rng.choice([0.5, 1.0], queries) if draw(st.booleans()) else np.ones(queries)
    return rng, rng.normal(size=(queries, labels)), targets, weights


@given(problems(), st.sampled_from(KINDS), st.booleans(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_value_and_gradient_are_those_of_the_equation(problem, kind, one_positive, share):
    rng, values, targets, weights = problem
    pairs = pairs_of(targets, rng)
    loss = PoolLoss(kind, one_positive, share, margin=0.3, hardest=2)
    similarity = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    temperature = torch.tensor(0.5, requires_grad=True)
    found = loss(similarity, pairs, temperature, torch.from_numpy(weights.astype(np.float32)))
    found.backward()

    slow = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    slow_temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    expected = slow_loss(loss, slow, targets, pairs, slow_temperature, weights)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    np.testing.assert_allclose(similarity.grad.numpy(), slow.grad.numpy(), atol=1e-5)
    wanted = 0.0 if slow_temperature.grad is None else slow_temperature.grad.item()
    got = 0.0 if temperature.grad is None else temperature.grad.item()
    assert got == pytest.approx(wanted, abs=1e-4)


@given(problems())
def test_binary_cross_entropy_is_that_of_the_equation(problem):
    rng, values, targets, weights = problem
    scores = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    found = binary_cross_entropy(scores, pairs_of(targets, rng), torch.from_numpy(weights.astype(np.float32)))
    found.backward()
    slow, total = torch.tensor(values, requires_grad=True), 0.0
    for i, row in enumerate(targets):
        for j, y in enumerate(row):
            share = torch.sigmoid(slow[i, j])
            total = total - weights[i] * (y * torch.log(share) + (1 - y) * torch.log(1 - share))
    total = total / weights.sum()
    total.backward()
    assert found.item() == pytest.approx(total.item(), rel=1e-5)
    np.testing.assert_allclose(scores.grad.numpy(), slow.grad.numpy(), atol=1e-6)


def test_other_positives_do_not_compete_in_decoupled_softmax_but_do_in_supcon():
    similarity = torch.tensor([[1.0, 5.0, 0.0]])
    pairs = pairs_of(np.array([[1.0, 1.0, 0.0]]), np.random.default_rng(0))
    alone = PoolLoss("decoupled-softmax", False, 1.0)(similarity, pairs).item()
    together = PoolLoss("supcon", False, 1.0)(similarity, pairs).item()
    assert alone == pytest.approx((math.log1p(math.exp(-1)) + math.log1p(math.exp(-5))) / 2)
    assert together > alone + 1


def test_a_label_that_is_excluded_is_no_negative_of_the_triplet_loss():
    pairs = pairs_of(np.array([[1.0, 0.0, 0.0]]), np.random.default_rng(0))
    loss = PoolLoss("triplet", False, 1.0, margin=0.3, hardest=5)
    excluded = loss(torch.tensor([[0.2, 0.5, UNLIKE]]), pairs).item()
    assert excluded == pytest.approx(0.6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_do_not_depend_on_which_thread_comes_first(kind):
    rng = np.random.default_rng(0)
    pairs = pairs_of((rng.random((256, 2048)) < 0.3) * 1.0, rng)
    values = torch.from_numpy(rng.normal(size=(256, 2048)).astype(np.float32))
    before, found = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        for _ in range(8):
            similarity = values.clone().requires_grad_()
            PoolLoss(kind, False, 0.5)(similarity, pairs, 0.05).backward()
            found.append(similarity.grad)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(gradient, found[0]) for gradient in found)


def test_scores_too_large_for_exponentials_stay_finite():
    similarity = torch.tensor([[500.0, -500.0], [-500.0, 500.0]], requires_grad=True)
    pairs = pairs_of(np.array([[1.0, 0.0], [1.0, 0.0]]), np.random.default_rng(0))
    for kind in KINDS:
        loss = PoolLoss(kind, False, 0.5)(similarity, pairs, 0.05)
        (gradient,) = torch.autograd.grad(loss, similarity)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()
