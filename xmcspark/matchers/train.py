"""Trains one linear matcher per child of every node of a label tree (paper 1, section 7).

Which rows a node trains on is decided here: those of the true parents (TFN), of the parents that beam search
predicts (MAN), and pairs given by the user. The mathematics is in native/solve.h."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xmcspark._native.solve import train_levels
from xmcspark.errors import InputError
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import check_threads
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import (
    by_position,
    check_relevance,
    check_targets,
    l1_normalised,
    lift,
    nonzero,
    pattern,
)
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.tree.label_tree import LabelTree

log = logging.getLogger(__name__)

Report = Callable[[int, int], None]  # (children trained, children in all), called about once a second


@dataclass(frozen=True)
class LevelProblem:
    """The training problem of all nodes of one level, as the kernel reads it."""

    X: Csr
    Y: Csr  # targets of the nodes' children
    relevance: np.ndarray  # cost of each entry of Y; empty = 1
    negatives: Csr | None  # pairs the user wants as negatives
    child_ptr: np.ndarray
    node_seed: np.ndarray
    node_rows_ptr: np.ndarray
    node_rows: np.ndarray
    whole: np.ndarray  # 0: only given pairs of this row train in this node; empty = all 1
    start: Csr | None  # weights to start from
    start_bias: np.ndarray


def train_matchers(
    X: Any,
    Y: Any,
    tree: LabelTree,
    settings: TrainSettings | None = None,
    *,
    relevance: Any = None,
    extra_negatives: Any = None,
    start: TreeModel | None = None,
    threads: int = 1,
    report: Report | None = None,
    **changes: Any,
) -> TreeModel:
    """A model that ranks the tree's labels for rows like those of X.

    X: instances x features. Y: instances x labels, targets in 0..1. `relevance`: weights of Y's positive pairs
    (used with `cost_sensitive`; default 1 each). `extra_negatives`: instances x labels, non-zero pairs are trained as
    negatives besides those that `settings.negatives` picks; pairs of Y stay positive, labels outside the tree are
    left out. `start`: a model of the same tree and features to start from; the
    answer is that of a cold start, sooner. `changes` override single settings, e.g. `threshold=0.05`. The answer
    does not depend on `threads`. Rows should have about unit length (as Tfidf makes them): long ones take many more
    sweeps. Labels without positives get matchers that say no; rows without labels are
    negatives of the root only.
    """
    settings = replace(settings or TrainSettings(), **changes)
    check_threads(threads)
    X = as_csr(X, "X")
    if not X.shape[0]:
        raise InputError("X has no rows: there is nothing to train on")
    Y = check_targets(Y, X.shape[0])
    if not Y.nnz:
        raise InputError("Y has no positive pair: there is nothing to learn")
    if start is not None and (start.n_features != X.shape[1] or not same_tree(start.tree, tree)):
        raise InputError(
            "the model to start from has another tree or other features: start from scratch instead"
        )
    R = None
    if settings.cost_sensitive:
        R = pattern(Y) if relevance is None else check_relevance(relevance, Y)
    elif relevance is not None:
        raise InputError("relevance is given but cost_sensitive is off: switch it on, or leave relevance out")
    U = None
    if extra_negatives is not None:
        U = nonzero(as_csr(extra_negatives, "extra_negatives", rows=X.shape[0], cols=Y.shape[1]))
    trainer = _Trainer(X, tree, settings, start, threads, report)
    return trainer.train(
        by_position(Y, tree), R and by_position(R, tree), U and by_position(U, tree, outside="drop")
    )


class _Trainer:
    def __init__(
        self,
        X: Csr,
        tree: LabelTree,
        settings: TrainSettings,
        start: TreeModel | None,
        threads: int,
        report: Report | None,
    ):
        self.X, self.tree, self.settings, self.start = X, tree, settings, start
        self.threads, self.report = threads, report
        self.total = sum(int(ptr[-1]) for ptr in tree.child_ptr)
        self.progress = np.zeros(3, np.int64)  # see native/train.h

    def train(self, Y: Csr, R: Csr | None, U: Csr | None) -> TreeModel:
        targets = list(self._lifted(Y, np.maximum))  # of the children of each level, root first
        relevance = list(self._lifted(R, np.add)) if R else [None] * len(targets)
        everything = Csr(
            np.arange(Y.shape[0] + 1, dtype=np.int64),
            np.zeros(Y.shape[0], np.int32),
            np.ones(Y.shape[0], np.float32),
            (Y.shape[0], 1),
        )
        depth = len(targets)
        if self.settings.negatives == "tfn":
            problems = [
                self._problem(
                    t, targets[t], relevance[t], None, targets[t - 1] if t else everything, _last(U, t, depth)
                )
                for t in range(depth)
            ]
            return self._model(self.tree, self._solve(problems))
        matchers: list[Matchers] = []
        for t in range(depth):
            predicted = self._predicted(matchers) if t else everything
            true = targets[t - 1] if t else everything
            problem = self._problem(t, targets[t], relevance[t], predicted, true, _last(U, t, depth))
            matchers += self._solve([problem])
        return self._model(self.tree, matchers)

    def _model(self, tree: LabelTree, matchers: list[Matchers]) -> TreeModel:
        return TreeModel(tree, tuple(matchers), self.X.shape[1], Scoring.for_loss(self.settings.loss))

    def _lifted(self, Y: Csr, how: np.ufunc) -> Iterator[Csr]:
        levels = [Y]
        for child_ptr in reversed(self.tree.child_ptr[1:]):
            levels.append(lift(levels[-1], child_ptr, how))
        return reversed(levels)

    def _predicted(self, matchers: list[Matchers]) -> Csr:
        """The nodes that beam search so far would open for each row (matcher-aware negatives)."""
        above = self.tree.child_ptr[: len(matchers)]
        nodes = LabelTree(above, np.arange(above[-1][-1], dtype=np.int32))  # the level's nodes as labels
        upper = self._model(nodes, matchers)
        beam = self.settings.man_beam
        found = upper.predict(self.X, beam=beam, top_k=beam, threads=self.threads)
        return found.to_csr(upper.tree.n_labels)

    def _problem(
        self, t: int, Y: Csr, R: Csr | None, predicted: Csr | None, true: Csr, U: Csr | None
    ) -> LevelProblem:
        child_ptr = self.tree.child_ptr[t]
        tfn = self.settings.negatives != "man"
        whole = [m for m in (true if tfn else None, predicted) if m is not None]
        partial = [] if tfn else [true]
        if U is not None:
            partial.append(lift(U, child_ptr, np.maximum))
        rows = _node_rows(whole, partial).transpose()
        nodes = len(child_ptr) - 1
        return LevelProblem(
            X=self.X,
            Y=Y,
            relevance=l1_normalised(R) if R else np.empty(0, np.float32),
            negatives=U,
            child_ptr=child_ptr,
            node_seed=node_seeds(self.settings.seed, t, nodes),
            node_rows_ptr=rows.indptr,
            node_rows=rows.indices,
            whole=(rows.data > 0).astype(np.uint8) if partial else np.empty(0, np.uint8),
            start=self.start.matchers[t].weights if self.start else None,
            start_bias=self.start.matchers[t].bias if self.start else np.empty(0, np.float32),
        )

    def _solve(self, problems: list[LevelProblem]) -> list[Matchers]:
        s = self.settings
        before = int(self.progress[2])
        solved = _watched(
            lambda: train_levels(
                problems,
                loss=s.loss,
                tolerance=s.tolerance,
                max_sweeps=s.max_sweeps,
                bias=s.bias,
                cost_positive=s.cost_positive,
                cost_negative=s.cost_negative * (s.alpha if s.cost_sensitive else 1.0),
                threshold=s.threshold,
                max_weights=s.max_weights,
                threads=self.threads,
                progress=self.progress,
            ),
            self.progress,
            self.total,
            self.report,
        )
        self._look_at_outcome(solved, int(self.progress[2]) - before)
        return [
            Matchers(Csr(indptr, indices, data, (len(bias), self.X.shape[1])), bias)
            for indptr, indices, data, bias in solved
        ]

    def _look_at_outcome(self, solved: list[Any], unfinished: int) -> None:
        if unfinished:
            log.warning(
                "%d matchers stopped after max_sweeps=%d, before reaching tolerance=%g: normalise the rows of X, or "
                "raise max_sweeps or tolerance",
                unfinished,
                self.settings.max_sweeps,
                self.settings.tolerance,
            )
        if not all(np.isfinite(data).all() and np.isfinite(bias).all() for _, _, data, bias in solved):
            raise InputError(
                "weights grew beyond float32: the values of X or the costs are too large, scale them"
            )


def same_tree(one: LabelTree, other: LabelTree) -> bool:
    return (
        one.depth == other.depth
        and all(np.array_equal(a, b) for a, b in zip(one.child_ptr, other.child_ptr, strict=True))
        and np.array_equal(one.labels, other.labels)
    )


def _last(U: Csr | None, t: int, depth: int) -> Csr | None:
    return U if t == depth - 1 else None


def _node_rows(whole: list[Csr], partial: list[Csr]) -> Csr:
    """Rows x nodes: 1 where all of the node's children train on the row, 0 where only given pairs do."""
    if len(whole) == 1 and not partial:
        return whole[0]
    either = _pattern([*whole, *partial])
    if partial and whole:
        # The sum holds 2 where a row is whole and 1 where it is partial; less 1, partial ones stay as zeros.
        either = either + _pattern(whole)
    if partial:
        either.data -= 1.0
    return as_csr(either)


def _pattern(matrices: list[Csr]) -> Any:
    """1 wherever one of the matrices has an entry."""
    total = _ones(matrices[0])
    for matrix in matrices[1:]:
        total = total + _ones(matrix)
    total.data[:] = 1.0
    return total


def _ones(matrix: Csr) -> Any:
    return Csr(matrix.indptr, matrix.indices, np.ones(matrix.nnz, np.float32), matrix.shape).to_scipy()


def node_seeds(seed: int, level: int, nodes: int) -> np.ndarray:
    """A seed per node of a level, from its place in the tree only (splitmix64 of seed, level and number)."""
    place = _mixed(np.array([seed], np.uint64)) ^ np.uint64(level)
    return _mixed(_mixed(place) ^ np.arange(nodes, dtype=np.uint64))


def _mixed(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _watched(kernel: Callable[[], Any], progress: np.ndarray, total: int, report: Report | None) -> Any:
    """Runs a kernel beside this thread, which stays free to report once a second and to be interrupted."""
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(kernel)
        try:
            while wait([running], timeout=1.0).not_done:
                if report is not None:
                    report(int(progress[0]), total)
        except BaseException:  # interrupted, or the report failed: do not wait for hours first
            progress[1] = 1
            raise
    if report is not None:
        report(int(progress[0]), total)
    try:
        return running.result()
    except OverflowError as error:
        raise InputError(str(error)) from error
