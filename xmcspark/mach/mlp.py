"""The neural learner: a repetition's buckets from one hidden layer over sparse rows, trained with torch. The trained
weights are plain arrays: prediction needs no torch.

The answer depends on seed, repetition and row keys, not on the order of rows; it is the same bits on one kind of
machine for one number of threads (torch adds up in another order with more)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from xmcspark.errors import ConfigError, InputError
from xmcspark.labels.draws import hashed, streams
from xmcspark.mach.repetition import MlpRepetition, Part
from xmcspark.mach.settings import NEEDS_TORCH, MachSettings
from xmcspark.mach.targets import bucket_targets
from xmcspark.matchers.targets import check_targets, rows_of
from xmcspark.matchers.train import _checked_keys, _checked_weights
from xmcspark.matchers.trainer import Report
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows


def train_mlp(
    X: Any,
    Y: Any,
    part: Part,
    settings: MachSettings | None = None,
    *,
    row_keys: Any = None,
    row_weights: Any = None,
    row_negatives: Any = None,
    threads: int = 1,
    report: Report | None = None,
) -> MlpRepetition:
    """Repetition `part` of a sketch, trained on X [rows, features] and targets Y [rows, labels].

    `row_keys`, `row_weights` and `row_negatives` as `train_matchers` has them; with softmax a row has no negatives
    of its own, and `row_negatives` does nothing. `report` is called after each step with steps done and steps in all.
    """
    torch = _torch()
    settings = settings or MachSettings()
    X = as_csr(X, "X", cols=part.features)
    if not X.shape[0]:
        raise InputError("X has no rows: there is nothing to train on")
    Y = check_targets(as_csr(Y, "Y", cols=part.labels), X.shape[0])
    if not Y.nnz:
        raise InputError("Y has no positive pair: there is nothing to learn")
    keys = _checked_keys(row_keys, X.shape[0])
    weights = _checked_weights(row_weights, row_negatives, X.shape[0])
    softmax = settings.loss == "softmax" or (settings.loss == "auto" and int(np.diff(Y.indptr).max()) == 1)
    inputs, targets = part.inputs(X), bucket_targets(Y, part.bucket_hash)
    size, total = settings.batch_size, settings.epochs * -(-X.shape[0] // settings.batch_size)
    with _few_threads(torch, threads):
        network = _Network(torch, part, settings, softmax, targets)
        done = 0
        for epoch in range(settings.epochs):
            order = visiting_order(keys, part, epoch)
            for start in range(0, X.shape[0], size):
                rows = order[start : start + size]
                rate = settings.learning_rate * (1 - done / total)
                own = None if weights is None else weights[rows]
                network.step(take_rows(inputs, rows), take_rows(targets, rows), own, rate)
                done += 1
                if report is not None:
                    report(done, total)
    return network.trained()


def visiting_order(keys: np.ndarray, part: Part, epoch: int) -> np.ndarray:
    """Rows in the order in which an epoch visits them: by a hash of their keys, equal keys as they come."""
    drawn = hashed(streams(part.seed, f"mlp epoch {epoch} of repetition {part.repetition}", keys), 0)
    return np.argsort(drawn, kind="stable")


class _Network:
    """Weights in training, and one step of it. Of the embedding a step touches only the rows of its own features."""

    def __init__(self, torch: Any, part: Part, settings: MachSettings, softmax: bool, targets: Csr) -> None:
        self.torch, self.part, self.softmax = torch, part, softmax
        rng = np.random.Generator(np.random.PCG64([part.seed, part.repetition]))
        hidden, spread = settings.hidden, 1.0 / np.sqrt(settings.hidden)
        start = {
            "embedding": rng.standard_normal((part.columns, hidden), np.float32) * np.float32(spread),
            "hidden_bias": np.zeros(hidden, np.float32),
            "output": rng.standard_normal((hidden, part.buckets), np.float32) * np.float32(spread),
            "bias": _log_shares(targets),
        }
        self.weights = {name: _Adam(torch, torch.from_numpy(value)) for name, value in start.items()}

    def step(self, X: Csr, Y: Csr, weights: np.ndarray | None, rate: float) -> None:
        """One step of the given size down the loss of some rows."""
        features, local = np.unique(X.indices, return_inverse=True)
        rows = {"embedding": self.torch.from_numpy(features.astype(np.int64))}
        used = {name: weight.used(rows.get(name)) for name, weight in self.weights.items()}
        bags = self.torch.nn.functional.embedding_bag(
            self.torch.from_numpy(local.astype(np.int64)),
            used["embedding"],
            self.torch.from_numpy(X.indptr[:-1]),
            mode="sum",
            per_sample_weights=self.torch.from_numpy(X.data),
        )
        hidden = self.torch.relu(bags + used["hidden_bias"])
        self._loss(hidden @ used["output"] + used["bias"], Y, weights).backward()
        for name, weight in self.weights.items():
            weight.step(used[name].grad, rate, rows.get(name))

    def _loss(self, logits: Any, Y: Csr, weights: np.ndarray | None) -> Any:
        """The mean over rows of y · cost(+1) + (1 - y) · cost(-1), summed over buckets; with softmax of
        -y · log(share)."""
        torch, rows = self.torch, rows_of(Y)
        targets = np.zeros(logits.shape, np.float32)
        targets[rows, Y.indices] = Y.data
        if self.softmax:
            if weights is not None:
                targets *= weights[:, :1]
            shares = torch.log_softmax(logits, dim=1)
            return -(torch.from_numpy(targets) * shares).sum() / logits.shape[0]
        costs = None
        if weights is not None:
            costs = np.repeat(weights[:, 1:], self.part.buckets, axis=1)
            costs[rows, Y.indices] = weights[rows, 0]
            costs = torch.from_numpy(costs)
        summed = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, torch.from_numpy(targets), weight=costs, reduction="sum"
        )
        return summed / logits.shape[0]

    def trained(self) -> MlpRepetition:
        arrays = {name: weight.values.numpy() for name, weight in self.weights.items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise InputError(
                "training diverged: lower mach.learning_rate, or scale the rows of X to unit length"
            )
        return MlpRepetition.of(self.part, **arrays, softmax=self.softmax)


class _Adam:
    """A weight and its moments (Kingma and Ba 2015). Here because torch.optim loads torch's compiler, for seconds, and
    because rows of the embedding wait until a step has their feature."""

    _DECAY = (0.9, 0.999)

    def __init__(self, torch: Any, values: Any) -> None:
        self.torch, self.values, self.steps = torch, values, 0
        self.moments = [torch.zeros_like(values) for _ in self._DECAY]

    def used(self, rows: Any) -> Any:
        """The weights, or some rows of them, as a step differentiates by them."""
        return (self.values if rows is None else self.values[rows]).detach().requires_grad_()

    def step(self, gradient: Any, rate: float, rows: Any) -> None:
        some = slice(None) if rows is None else rows
        self.steps += 1
        powers = zip(self.moments, self._DECAY, (gradient, gradient * gradient), strict=True)
        first, second = (
            moment[some].mul_(decay).add_(power, alpha=1 - decay) for moment, decay, power in powers
        )
        if rows is not None:
            self.moments[0][rows], self.moments[1][rows] = first, second
        unbiased = [1 - decay**self.steps for decay in self._DECAY]
        change = first / (second.sqrt() + 1e-8 * unbiased[1] ** 0.5)
        self.values[some] -= change * (rate * unbiased[1] ** 0.5 / unbiased[0])


def _log_shares(targets: Csr) -> np.ndarray:
    """The bias to start from, of each bucket: about what a network that knows nothing of a row should answer."""
    counts = np.bincount(targets.indices, targets.data, targets.shape[1])
    return np.asarray(np.log((counts + 0.5) / (targets.shape[0] + 1.0)), np.float32)


@contextmanager
def _few_threads(torch: Any, threads: int) -> Iterator[None]:
    """So many threads; as many as before, afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise ConfigError([NEEDS_TORCH]) from error
