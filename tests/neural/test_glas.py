"""GLaS's regulariser equals equations 1.8 and 1.9 of paper 5, written as loops."""

import needs_torch  # noqa: F401
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.neural import glas
from xmcspark.neural.glas import batch_penalty, glas_penalty, glas_targets
from xmcspark.sparse.csr import as_csr


def slow_targets(Y, labels):
    shares = np.zeros((len(labels), len(labels)))
    for a, i in enumerate(labels):
        for b, j in enumerate(labels):
            together = np.sum(Y[:, i] * Y[:, j])
            if i == j:
                shares[a, b] = 1
            elif together:
                shares[a, b] = 0.5 * (together / Y[:, j].sum() + together / Y[:, i].sum())
    return shares


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 9))
def test_targets_are_symmetrised_shares_of_the_labels_asked_for(seed, rows, n_labels):
    rng = np.random.default_rng(seed)
    Y = (rng.random((rows, n_labels)) < 0.4) * 1.0
    graph, _ = counted_neighbours(as_csr(sp.csr_matrix(Y)), 100)
    labels = np.sort(rng.permutation(n_labels)[: rng.integers(1, n_labels + 1)])
    np.testing.assert_allclose(glas_targets(graph, labels), slow_targets(Y, labels), atol=1e-6)


def test_a_pair_counts_if_either_label_kept_the_other():
    Y = np.zeros((30, 4))
    Y[:, 0] = 1
    Y[:10, 1] = Y[10:25, 2] = Y[25:, 3] = (
        1  # label 0 keeps one of its three neighbours, all of them keep label 0
    )
    graph, _ = counted_neighbours(as_csr(sp.csr_matrix(Y)), 1)
    np.testing.assert_allclose(glas_targets(graph, np.arange(4)), slow_targets(Y, np.arange(4)), atol=1e-6)


def test_penalty_and_its_gradient_are_those_of_the_equation():
    rng = np.random.default_rng(0)
    values, targets = rng.normal(size=(5, 3)), rng.random((5, 5)).astype(np.float32)
    weights = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    found = glas_penalty(weights, torch.from_numpy(targets))
    found.backward()
    slow = torch.tensor(values, requires_grad=True)
    expected = sum(
        (torch.dot(slow[i], slow[j]) - float(targets[i, j])) ** 2 for i in range(5) for j in range(5)
    )
    expected = expected / 25
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(weights.grad.numpy(), slow.grad.numpy(), rtol=1e-4)


def test_labels_out_of_order_are_refused():
    graph, _ = counted_neighbours(as_csr(sp.csr_matrix(np.ones((2, 3)))), 5)
    with pytest.raises(InputError, match="increasing"):
        glas_targets(graph, np.array([2, 0]))


def test_of_a_large_batch_some_labels_are_compared(monkeypatch):
    rng = np.random.default_rng(1)
    graph, _ = counted_neighbours(as_csr(sp.csr_matrix((rng.random((20, 9)) < 0.4) * 1.0)), 100)
    labels, weights = np.arange(9), torch.from_numpy(rng.normal(size=(9, 3)).astype(np.float32))
    every = glas_penalty(weights, torch.from_numpy(glas_targets(graph, labels)))
    drawn = np.array([5, 1, 7, 8, 0, 9, 6, 3, 4])
    torch.testing.assert_close(batch_penalty(graph, labels, weights, drawn), every)
    monkeypatch.setattr(glas, "_MOST", 3)
    some = [1, 4, 7]
    expected = glas_penalty(weights[some], torch.from_numpy(glas_targets(graph, labels[some])))
    torch.testing.assert_close(batch_penalty(graph, labels, weights, drawn), expected)
