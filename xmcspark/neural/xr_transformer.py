"""XR-Transformer's fine-tuning (paper 4, algorithms 1 and 2): one encoder, taught the labels at one resolution after
the other, down a preliminary tree. The refined tree and its matchers are linear ones, on TF-IDF ⊕ embeddings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.cooccurrence import Neighbours, counted_neighbours
from xmcspark.labels.features import pifa
from xmcspark.matchers.model import Matchers
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import row_totals
from xmcspark.matchers.trainer import Trainer, in_one_node
from xmcspark.neural.begun import claim
from xmcspark.neural.checkpoint import Checkpoints
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tune import FineTuned, fine_tune, finished_before
from xmcspark.neural.held_out import learned_targets
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.level_start import LevelStart
from xmcspark.neural.level_task import LevelTask
from xmcspark.neural.progress import Report
from xmcspark.neural.resolutions import Resolution, resolutions
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings
from xmcspark.neural.shortlist import best_children, united
from xmcspark.neural.training_set import TrainingSet, embeddings_alone
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.distinct import distinct
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.shape import level_sizes

log = logging.getLogger(__name__)

_NEIGHBOURS = 100  # kept of each label, for R_GLaS
_BOOTSTRAP_SWEEPS = 20  # a start need not be the optimum


@dataclass(frozen=True)
class LevelReport:
    """What fine-tuning on one level came to."""

    level: int
    outputs: int
    tuned: FineTuned


def preliminary_tree(
    data: TrainingSet,
    settings: XrTransformerSettings,
    *,
    seed: int,
    threads: int,
    held_out: np.ndarray | None = None,
) -> LabelTree:
    """The tree that fine-tuning goes down: labels clustered by the TF-IDF of their instances, but for those that are
    held out (bool, by row)."""
    Y = data.Y if held_out is None else learned_targets(data.Y, held_out)
    live = distinct(Y.indices)
    if len(live) < 2:
        raise InputError(f"the training instances have {len(live)} labels: there is nothing to tell apart")
    Z = pifa(data.X, data.describing(held_out), threads=threads)[live]
    tree = build_tree(Z, shape=preliminary_shape(len(live), settings), seed=seed, threads=threads)
    return LabelTree(tree.child_ptr, live[tree.labels].astype(np.int32))


def preliminary_shape(labels: int, settings: XrTransformerSettings) -> tuple[int, ...]:
    """Clusters on each level of the preliminary tree."""
    if settings.shape is not None:
        return settings.shape
    every = level_sizes(labels, settings.branching, settings.max_leaf)
    return tuple(size for size in every if size >= settings.fewest_nodes)


class XrFineTuning:
    """Fine-tunes an encoder level by level. `folder` keeps what a killed run needs to go on."""

    def __init__(
        self,
        data: TrainingSet,
        tree: LabelTree,
        encoder_settings: EncoderSettings,
        settings: XrTransformerSettings,
        *,
        seed: int,
        folder: Path,
        identity: Mapping[str, Any],
        train: TrainSettings | None = None,
        embedder: Embedder | None = None,
        threads: int = 1,
        report: Report | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.data, self.tree = data, tree
        self.encoder_settings, self.settings = encoder_settings, settings
        self.seed, self.folder, self.identity = seed, folder, dict(identity)
        self.embedder = embedder or Embedder(encoder_settings.embed_batch)
        self.processes, self.device = self.embedder.processes, self.embedder.device
        self.threads, self.report, self.keeper = threads, report, keeper or Keeper()
        self.solving = replace(
            train or TrainSettings(),
            negatives="tfn+man",
            cost_sensitive=settings.cost_sensitive,
            alpha=settings.alpha,
            seed=seed,
        )
        found = resolutions(tree, data.Y, data.costs, cost_sensitive=settings.cost_sensitive)
        self.levels = found[:-1] if settings.down_to == "clusters" and len(found) > 1 else found
        self.held_out = data.held_out(encoder_settings.validation, seed)
        rows = len(data) - int(self.held_out.sum())
        self.step_rows = encoder_settings.batch_size * encoder_settings.accumulate * self.processes.world
        self.steps = level_steps(
            encoder_settings.epochs * rows / self.step_rows, len(self.levels), settings.shares
        )

    def run(self, encoder: TextEncoder) -> tuple[TextEncoder, list[LevelReport]]:
        """The fine-tuned encoder, and what each level came to, in this run or before."""
        claim(self.folder, self.identity)
        encoder, start = self._begun(encoder)
        reports = self._reports_before(start.level)
        for level in self.levels[start.level :]:
            log.info(
                "fine-tuning level %d of %d: %d outputs, %d steps",
                level.number + 1,
                len(self.levels),
                level.outputs,
                self.steps[level.number],
            )
            self.head = self._head(level, start, encoder.width)
            start = start.without_head()
            tuned = self._fine_tuned(encoder, level, start.parents)
            reports.append(LevelReport(level.number, level.outputs, tuned))
            if level.number + 1 < len(self.levels):
                start = self._next(encoder, level, start)
                self._keep(start, encoder)
        return encoder, reports

    def _begun(self, encoder: TextEncoder) -> tuple[TextEncoder, LevelStart]:
        """From where an earlier attempt came to, or from the top."""
        found = LevelStart.latest(self.folder)
        if not self.processes.all_have(found is not None):
            start = self._first(encoder)
            self._keep(start, encoder)
            return encoder, start
        assert found is not None
        start, place = found
        log.info("going on at level %d of %d", start.level + 1, len(self.levels))
        return TextEncoder.load(place), start

    def _reports_before(self, level: int) -> list[LevelReport]:
        """Of the levels above one that an earlier attempt came to, as the first process finds them."""
        found = [
            LevelReport(above.number, above.outputs, tuned)
            for above in self.levels[:level]
            if (tuned := finished_before(self._checkpoints, _name(above), self.encoder_settings)) is not None
        ]
        reports: list[LevelReport] = self.processes.broadcast(found)
        return reports

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", self.identity)

    def _first(self, encoder: TextEncoder) -> LevelStart:
        """Where the first level starts: every row is in the root."""
        root = in_one_node(len(self.data))
        if not (self.settings.bootstrap and self.settings.bootstrap_root):
            return LevelStart(0, root)
        return self._bootstrapped(self.embedder.embedded(encoder, self.data.tokens), self.levels[0], root)

    def _keep(self, start: LevelStart, encoder: TextEncoder) -> None:
        if self.processes.rank == 0:
            start.save(self.folder, encoder)
            self.keeper.keep()
        self.processes.barrier()

    def _head(self, level: Resolution, start: LevelStart, width: int) -> RowTable:
        return RowTable.create(
            level.outputs,
            width,
            self.folder / f"head-{level.number}-of-{self.processes.rank}",
            weights=start.weights,
            bias=start.bias,
            decay=self.settings.head_decay,
        )

    def _fine_tuned(self, encoder: TextEncoder, level: Resolution, reached: Csr) -> FineTuned:
        task = LevelTask(
            name=_name(level),
            data=self.data,
            level=level,
            shortlist=united(reached, level.parents),
            reached=reached,
            table=self.head,
            steps=self.steps[level.number],
            step_rows=self.step_rows,
            train_rows=np.flatnonzero(~self.held_out),
            held_out=np.flatnonzero(self.held_out),
            alpha=self.settings.alpha if self.settings.cost_sensitive else 1.0,
            seed=self.seed,
            glas=self.settings.glas,
            graph=self._cooccurrence(level),
            device=self.device,
        )
        return fine_tune(
            encoder,
            task,
            self.encoder_settings,
            seed=self.seed,
            device=self.device,
            processes=self.processes,
            checkpoints=self._checkpoints,
            keeper=self.keeper,
            report=self.report,
        )

    def _cooccurrence(self, level: Resolution) -> Neighbours | None:
        """Which labels occur together, where that is asked for and labels are what is learned."""
        if not self.settings.glas or level.number < self.tree.depth - 1:
            return None
        return counted_neighbours(learned_targets(level.Y, self.held_out), _NEIGHBOURS, self.threads)[0]

    def _next(self, encoder: TextEncoder, level: Resolution, start: LevelStart) -> LevelStart:
        """Parents for the level below, predicted for all rows, and what its head starts from (eq. 11)."""
        E = self.embedder.embedded(encoder, self.data.tokens)
        of_solver = self.settings.shortlist == "matchers"
        if of_solver:
            X = self.data.with_embeddings(E)
            matchers = self._solved(X, level, start.parents)
        else:
            X, matchers = embeddings_alone(E), head_matchers(self.head)
        parents = best_children(
            X,
            matchers,
            level.child_ptr,
            start.parents,
            self.settings.parents,
            scoring=Scoring.for_loss(self.solving.loss if of_solver else "squared_hinge"),
            threads=self.threads,
        )
        below = self.levels[level.number + 1]
        if not self.settings.bootstrap:
            return LevelStart(below.number, parents)
        return self._bootstrapped(E, below, parents)

    def _bootstrapped(self, E: np.ndarray, level: Resolution, parents: Csr) -> LevelStart:
        """A level whose head starts from what the solver finds on embeddings (eq. 11)."""
        cost = self.settings.bootstrap_cost
        solving = replace(self.solving, cost_positive=cost, cost_negative=cost, max_sweeps=_BOOTSTRAP_SWEEPS)
        first = self._solved(embeddings_alone(E), level, parents, solving)
        return LevelStart(level.number, parents, first.weights.dense, first.bias)

    def _solved(
        self, X: Csr, level: Resolution, predicted: Csr, solving: TrainSettings | None = None
    ) -> Matchers:
        """Matchers of a level by the native solver, on the rows that may be learned from."""
        rows = np.flatnonzero(~self.held_out)
        whole = len(rows) == len(self.data)
        parts = [X, level.Y, level.R, level.parents, predicted]
        X, Y, R, parents, reached = parts if whole else [take_rows(part, rows) for part in parts]
        weights = self.data.row_weights
        trainer = Trainer(
            X,
            self.tree,
            solving or self.solving,
            self.data.row_keys[rows],
            totals=row_totals(R) if self.settings.cost_sensitive else None,
            row_weights=None if weights is None else weights[rows],
            threads=self.threads,
        )
        costs = R if self.settings.cost_sensitive else None
        return trainer.train_level(level.number, Y, costs, parents, reached)


def _name(level: Resolution) -> str:
    return f"level-{level.number}"


def level_steps(total: float, levels: int, shares: Sequence[float] | None) -> list[int]:
    """Steps of each level, about `total` together."""
    given = shares or (1.0,) * levels
    if len(given) != levels:
        raise InputError(
            f"xr_transformer.shares has {len(given)} values for the {levels} levels of the preliminary tree: give one "
            "for each, or null"
        )
    return [round(total * share / sum(given)) for share in given]


def head_matchers(head: RowTable) -> Matchers:
    """A fine-tuned head as matchers of embeddings."""
    weights = np.ascontiguousarray(head.weights, np.float32)
    return Matchers(embeddings_alone(weights), np.ascontiguousarray(head.bias, np.float32))
