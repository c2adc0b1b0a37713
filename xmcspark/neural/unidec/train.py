"""Training of UniDEC from data to model: heads, the classifier's table, one run over both or, extending, a dual encoder
first and the classifier with it afterwards. `folder` keeps what a killed run needs to go on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.labels.cooccurrence import Neighbours, counted_neighbours
from xmcspark.neural.begun import claim
from xmcspark.neural.checkpoint import Checkpoints
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tune import FineTuned, fine_tune
from xmcspark.neural.held_out import learned_targets
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.progress import Report
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.schedule import Rates
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.first_vectors import first_vectors
from xmcspark.neural.unidec.heads import ClassifierHead, DualHead, Heads
from xmcspark.neural.unidec.model import UnidecModel
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.neural.unidec.task import PoolSizes, UnidecTask
from xmcspark.neural.unidec.validation import Validator
from xmcspark.neural.unidec.vectors import SearchSpace

log = logging.getLogger(__name__)

_NEIGHBOURS = 100  # kept of each label, for GLaS's regulariser


@dataclass(frozen=True)
class TaskReport:
    """What one task of training came to."""

    task: str
    tuned: FineTuned
    pools: Mapping[str, PoolSizes]  # by head


class UnidecTraining:
    """Trains a model on `data`; `held_out` (bool, by row) are instances it is checked on instead."""

    def __init__(
        self,
        data: UnidecData,
        encoder_settings: EncoderSettings,
        settings: UnidecSettings,
        *,
        seed: int,
        folder: Path,
        identity: Mapping[str, Any],
        embedder: Embedder | None = None,
        held_out: np.ndarray | None = None,
        graph: Neighbours | None = None,
        threads: int = 1,
        report: Report | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`graph`: which labels occur together, for GLaS's regulariser; by default counted."""
        self.data, self.settings = data, settings
        self.embedder = embedder or Embedder(encoder_settings.embed_batch)
        self.processes = self.embedder.processes
        # A step is one forward pass of each process over its share: losses over a pool are not sums of parts.
        share = -(-settings.batch_size // self.processes.world)
        self.encoder_settings = replace(encoder_settings, batch_size=share, accumulate=1)
        self.seed, self.folder = seed, folder
        self.threads, self.report, self.keeper = threads, report, keeper or Keeper()
        self.held_out = np.zeros(len(data), bool) if held_out is None else held_out
        self.graph = graph if graph is not None or not settings.glas else self._counted()
        self.identity = {**identity, "unidec": settings.decisive(checked=bool(self.held_out.any()))}
        self.warnings: list[str] = []  # what there is to tell of data and settings, once it runs
        self._own, self._first = (folder / f"process-{rank}" for rank in (self.processes.rank, 0))

    def run(self, encoder: TextEncoder) -> tuple[UnidecModel, list[TaskReport]]:
        """The trained model, and what each task came to."""
        self.data, self.warnings = self.data.checked(self.settings, encoder, self.encoder_settings.epochs)
        claim(self.folder, self.identity)
        settings, rows = self.settings, self.data.rows_with_labels()
        rows = rows[~self.held_out[rows]]
        dual = self._dual_head(encoder) if "dual" in settings.heads else None
        if "classifier" not in settings.heads:
            heads = Heads(dual)
            report = self._trained("dual", encoder, heads, None, rows, 1.0)
            return UnidecModel(encoder, heads, None, self.data.trained_labels), [report]
        reports = []
        if settings.extend:
            observed = rows if self.data.made is None else rows[~self.data.made[rows]]
            reports.append(self._trained("dual", encoder, Heads(dual), None, observed, settings.extend))
        classifier = self._classifier_head(encoder)
        start = first_vectors(
            self._own / "first-vectors",
            self.data,
            classifier,
            encoder if settings.start_from_text else None,
            self.embedder,
            seed=self.seed,
        )
        heads = Heads(dual, classifier)
        labels, width = start.shape
        table = RowTable.create(labels, width, self._own / "table", weights=start)
        name = "unidec" if dual is not None else "classifier"
        reports.append(self._trained(name, encoder, heads, table, rows, 1 - settings.extend))
        return UnidecModel(encoder, heads, table.weights, self.data.trained_labels), reports

    def _trained(
        self,
        name: str,
        encoder: TextEncoder,
        heads: Heads,
        table: RowTable | None,
        rows: np.ndarray,
        share: float,
    ) -> TaskReport:
        """One task, for a share of all epochs."""
        settings = self.settings
        per_epoch = -(-len(rows) // settings.batch_size)
        task = UnidecTask(
            name=name,
            data=self.data,
            settings=settings,
            encoder=encoder,
            heads=heads,
            table=table,
            rows=rows,
            steps=round(self.encoder_settings.epochs * share * per_epoch),
            seed=self.seed,
            folder=self._own,
            first_folder=self._first,
            embedder=self.embedder,
            threads=self.threads,
            graph=self.graph,
            validator=self._validator(heads, table),
        )
        if self.processes.rank == 0:
            self.keeper.keep()
        self.processes.barrier()
        log.info("%s: %d instances, %d labels, %d steps", name, len(rows), self.data.Y.shape[1], task.steps)
        tuned = fine_tune(
            encoder,
            task,
            self.encoder_settings,
            seed=self.seed,
            device=self.embedder.device,
            processes=self.processes,
            checkpoints=Checkpoints(self.folder / "checkpoints", self.identity),
            keeper=self.keeper,
            rates=Rates(
                modules=[settings.head_learning_rate] * len(heads.modules),
                tables=[settings.table_learning_rate] * len(task.tables),
                schedule="cosine",
            ),
            report=self.report,
        )
        for head, sizes in task.pools.items():
            how = (
                f"pools of {sizes.average_labels:.0f} labels, {sizes.average_positives:.1f} positives a query"
            )
            log.info("%s: %s (%s)", name, how, head)
        return TaskReport(name, tuned, task.pools)

    def _validator(self, heads: Heads, table: RowTable | None) -> Validator | None:
        rows = np.flatnonzero(self.held_out & (np.diff(self.data.Y.indptr) > 0))
        if not len(rows):
            return None
        space = SearchSpace(heads, self.settings.space if table is not None else "both")
        return Validator(self.data, rows, space, table, self.embedder, self._own / "validating")

    def _counted(self) -> Neighbours:
        """Which labels observed instances that are trained on have together."""
        left_out = self.held_out if self.data.made is None else self.held_out | self.data.made
        return counted_neighbours(learned_targets(self.data.Y, left_out), _NEIGHBOURS, self.threads)[0]

    def _dual_head(self, encoder: TextEncoder) -> DualHead:
        settings = self.settings
        how = (settings.head_dropout, settings.temperature, settings.learn_temperature)
        return DualHead(encoder.width, settings.dual_width, *how, self.seed)

    def _classifier_head(self, encoder: TextEncoder) -> ClassifierHead:
        settings, labels = self.settings, len(self.data.trained_labels)
        natural = settings.batch_size * (settings.positives + settings.hard_negatives)
        pool = settings.classifier_pool or natural
        pool = labels if settings.reduction == "pal" else min(pool, labels)
        how = (settings.head_dropout, settings.temperature, settings.learn_temperature)
        return ClassifierHead(encoder.width, settings.classifier_width, *how, self.seed, pool)
