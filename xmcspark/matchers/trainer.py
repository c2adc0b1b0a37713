"""Trains the levels of a tree, or of a part of one, with checked arrays: puts together the problem of each level and
gives it to the solver (native/solve.h). A part is trained as in the whole tree, bit for bit: its seeds follow from its
place there, and its nodes depend on the rows of their own labels only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xmcspark._native.solve import train_levels
from xmcspark.errors import InputError
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.node_rows import capped_rows, node_rows
from xmcspark.matchers.row_selection import RowCap
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import l1_normalised, lift, lifted
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.id_hash import mixed
from xmcspark.tree.label_tree import LabelTree

ALL_INPUTS = "tfidf+neural"

Report = Callable[[int, int], None]  # (children trained, children in all), called about once a second


@dataclass(frozen=True)
class LevelProblem:
    """The training problem of all nodes of one level, as the kernel reads it."""

    X: Csr
    Y: Csr  # targets of the nodes' children
    relevance: np.ndarray  # cost of each entry of Y; empty = 1
    row_weight: np.ndarray  # cost of each row of X for its targets; empty = 1
    row_negative: np.ndarray  # as a negative example for other children; empty = 1
    negatives: Csr | None  # pairs the user wants as negatives
    child_ptr: np.ndarray
    node_seed: np.ndarray
    node_rows_ptr: np.ndarray
    node_rows: np.ndarray
    whole: np.ndarray  # 0: only given pairs of this row train in this node; empty = all 1
    start: Csr | None  # weights to start from
    start_bias: np.ndarray


@dataclass(frozen=True)
class Place:
    """Where the tree that is trained lies in the whole one: its root's level, and the number that its first node of
    each level has on that level, that of the leaves included."""

    level: int
    first: tuple[int, ...]


class Trainer:
    """Trains all nodes of `tree` on X; its root on all rows. `totals`: relevance of all labels of each row, where
    relevance counts. `row_weights`: float32 [rows, 2], how much each row counts for its targets, and as a negative
    example of others. `caps`: by level and node of `tree`, where they cannot be told from the rows that are left.
    `given`: matchers of the first levels, taken as they are. `inputs`: what of X the others are trained on."""

    def __init__(
        self,
        X: Csr,
        tree: LabelTree,
        settings: TrainSettings,
        row_keys: np.ndarray,
        *,
        start: TreeModel | None = None,
        place: Place | None = None,
        totals: np.ndarray | None = None,
        row_weights: np.ndarray | None = None,
        caps: Mapping[tuple[int, int], RowCap] | None = None,
        given: Sequence[Matchers] = (),
        inputs: str = ALL_INPUTS,
        threads: int = 1,
        report: Report | None = None,
    ):
        self.X, self.tree, self.settings, self.start = X, tree, settings, start
        self.given, self.trained_on = tuple(given), input_columns(X, inputs)
        self.row_keys, self.totals, self.caps = row_keys, totals, caps
        costs = np.empty((0, 2), np.float32) if row_weights is None else row_weights
        self.row_weights, self.row_negatives = (np.ascontiguousarray(costs[:, i]) for i in (0, 1))
        self.place = place or Place(0, (0,) * (tree.depth + 1))
        self.threads, self.report = threads, report
        self.total = sum(int(ptr[-1]) for ptr in tree.child_ptr[len(self.given) :])
        self.progress = np.zeros(3, np.int64)  # see native/train.h

    @property
    def unfinished(self) -> int:
        """Matchers that stopped at max_sweeps."""
        return int(self.progress[2])

    def train(self, Y: Csr, R: Csr | None = None, U: Csr | None = None) -> TreeModel:
        """From targets, relevance and user-given negatives of the leaf positions."""
        targets = lifted(Y, self.tree, np.maximum)
        relevance: Sequence[Csr | None] = lifted(R, self.tree, np.add) if R else [None] * len(targets)
        everything = in_one_node(Y.shape[0])
        depth, matchers = len(targets), list(self.given)
        if self.settings.negatives == "tfn":
            problems = [
                self._problem(
                    t, targets[t], relevance[t], None, targets[t - 1] if t else everything, _last(U, t, depth)
                )
                for t in range(len(matchers), depth)
            ]
            return self._model(self.tree, matchers + self._solve(problems))
        for t in range(len(matchers), depth):
            predicted = self._predicted(matchers) if t else everything
            true = targets[t - 1] if t else everything
            problem = self._problem(t, targets[t], relevance[t], predicted, true, _last(U, t, depth))
            matchers += self._solve([problem])
        return self._model(self.tree, matchers)

    def train_level(self, t: int, Y: Csr, R: Csr | None, true: Csr, predicted: Csr | None) -> Matchers:
        """The nodes of one level alone, from targets and relevance of their children and from the nodes of that level
        that rows belong to and, with matcher-aware negatives, those that the levels above send them to."""
        return self._solve([self._problem(t, Y, R, predicted, true, None)])[0]

    def _model(self, tree: LabelTree, matchers: list[Matchers]) -> TreeModel:
        return TreeModel(tree, tuple(matchers), self.X.shape[1], Scoring.for_loss(self.settings.loss))

    def _predicted(self, matchers: list[Matchers]) -> Csr:
        """The nodes that beam search so far would open for each row (matcher-aware negatives)."""
        upper = self._model(self.tree.upper(len(matchers)), matchers)
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
        seeds = node_seeds(self.settings.seed, self.place.level + t, len(child_ptr) - 1, self.place.first[t])
        rows = self._capped(t, node_rows(whole, partial).transpose(), Y, seeds)
        return LevelProblem(
            X=self.trained_on,
            Y=Y,
            relevance=l1_normalised(R, self.totals)
            if R and self.totals is not None
            else np.empty(0, np.float32),
            row_weight=self.row_weights,
            row_negative=self.row_negatives,
            negatives=U,
            child_ptr=child_ptr,
            node_seed=seeds,
            node_rows_ptr=rows.indptr,
            node_rows=rows.indices,
            whole=(rows.data > 0).astype(np.uint8) if partial else np.empty(0, np.uint8),
            start=self.start.matchers[t].weights if self.start else None,
            start_bias=self.start.matchers[t].bias if self.start else np.empty(0, np.float32),
        )

    def _capped(self, t: int, rows: Csr, Y: Csr, seeds: np.ndarray) -> Csr:
        known = None if self.caps is None else {node: cap for (at, node), cap in self.caps.items() if at == t}
        ptr, most = self.tree.child_ptr[t], self.settings.max_rows
        return capped_rows(rows, Y, ptr, seeds, self.row_keys, most, known)

    def _solve(self, problems: list[LevelProblem]) -> list[Matchers]:
        if not problems:  # all were given
            return []
        s = self.settings
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
        arrays = [array for level in solved for array in level[2:] if array is not None]
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(
                "weights grew beyond float32: the values of X or the costs are too large, scale them"
            )
        return [
            Matchers(Csr(indptr, indices, data, (len(bias), self.X.shape[1]), dense), bias)
            for indptr, indices, data, dense, bias in solved
        ]


def input_columns(X: Csr, inputs: str) -> Csr:
    """X, or as many columns of which only those of TF-IDF, or only those of embeddings, have values."""
    if X.dense is None or inputs == ALL_INPUTS:
        return X
    if inputs == "tfidf":
        return replace(X, dense=np.zeros_like(X.dense))
    nothing = np.zeros(X.shape[0] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Csr(*nothing, X.shape, X.dense)


def in_one_node(rows: int) -> Csr:
    """Rows x nodes where there is one node, and all rows are in it."""
    return Csr(
        np.arange(rows + 1, dtype=np.int64),
        np.zeros(rows, np.int32),
        np.ones(rows, np.float32),
        (rows, 1),
    )


def _last(U: Csr | None, t: int, depth: int) -> Csr | None:
    return U if t == depth - 1 else None


def node_seeds(seed: int, level: int, nodes: int, first: int = 0) -> np.ndarray:
    """A seed for each of `nodes` nodes of a level from `first` on, from its place in the tree only (splitmix64 of
    seed, level and number)."""
    place = mixed(np.array([seed], np.uint64)) ^ np.uint64(level)
    return mixed(mixed(place) ^ np.arange(first, first + nodes, dtype=np.uint64))


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
