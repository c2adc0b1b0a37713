"""Fine-tuning on one level of a label tree (paper 4, eq. 9; with one level of clusters, paper 3, eq. 3): a linear head
on the embedding, whose rows are gathered for the outputs that a batch needs, so that memory does not follow the number
of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from xmcspark.labels.cooccurrence import Neighbours
from xmcspark.labels.draws import streams
from xmcspark.matchers.targets import rows_of
from xmcspark.neural.device import CPU, Device
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.glas import batch_penalty
from xmcspark.neural.length_batches import EpochBatches
from xmcspark.neural.memory import smaller_passes
from xmcspark.neural.resolutions import Resolution
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.shortlist import candidate_pairs
from xmcspark.neural.training_set import TrainingSet
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows


@dataclass(frozen=True)
class LevelOutputs:
    """What the rows of a batch are trained on: a cell for each of its rows and each output that any of them needs."""

    outputs: np.ndarray  # int64, increasing: the head's rows
    target: np.ndarray  # float32 [rows, outputs]
    positive: np.ndarray  # float32: weight of being wrong where the target is 1; 0 outside of the shortlist
    negative: np.ndarray  # float32: where it is 0

    def loss(self, margins: Tensor) -> Tensor:
        """y · cost · ℓ(+1) + (1 - y) · α · ℓ(-1) with the squared hinge, added up over outputs, as a mean of rows."""
        device = margins.device
        up = torch.from_numpy(self.target * self.positive).to(device)
        down = torch.from_numpy((1 - self.target) * self.negative).to(device)
        wrong = up * torch.relu(1 - margins) ** 2 + down * torch.relu(1 + margins) ** 2
        return wrong.sum() / len(self.target)


@dataclass
class LevelTask:
    """One level as a task of `fine_tune`. `shortlist`: parents whose children each row is trained on; those it belongs
    to are among them. `reached`: of held-out rows, the parents that were predicted."""

    name: str
    data: TrainingSet
    level: Resolution
    shortlist: Csr
    reached: Csr
    table: RowTable
    steps: int
    step_rows: int  # of all processes together
    train_rows: np.ndarray
    held_out: np.ndarray
    alpha: float
    seed: int
    glas: float = 0.0  # weight of R_GLaS
    graph: Neighbours | None = None  # of the outputs, for R_GLaS
    device: Device = CPU
    tables: Sequence[RowTable] = field(init=False)
    modules: Sequence[torch.nn.Module] = ()

    def __post_init__(self) -> None:
        self.tables = (self.table,)
        self._step = -1

    @property
    def rate_settings(self) -> Sequence[str]:
        return ("encoder.head_learning_rate",)

    @cached_property
    def _batches(self) -> EpochBatches:
        seed = self.seed + 1000 * self.level.number
        return EpochBatches(self.data.tokens.lengths, self.step_rows, seed, self.train_rows)

    def batch(self, step: int) -> np.ndarray:
        self._step = step
        return self._batches.batch(step)

    def loss(self, encoder: TextEncoder, rows: np.ndarray) -> Tensor:
        asked = self.outputs_of(rows)
        weights, bias = self.table.gathered(asked.outputs, self.device.torch)
        embeddings = encoder(self.data.tokens.batch(rows))
        loss = asked.loss(embeddings @ weights.T + bias)
        if self.graph is None:
            return loss
        drawn = streams(self.seed, f"outputs compared in step {self._step}", asked.outputs)
        return loss + self.glas * batch_penalty(self.graph, asked.outputs, weights, drawn)

    def outputs_of(self, rows: np.ndarray) -> LevelOutputs:
        """The shortlisted outputs of some rows with their targets and costs."""
        places, children = candidate_pairs(self.shortlist, self.level.child_ptr, rows)
        outputs, column = np.unique(children, return_inverse=True)
        shape = (len(rows), len(outputs))
        target, positive, negative = (np.zeros(shape, np.float32) for _ in range(3))
        alpha = np.float32(self.alpha)
        Y = take_rows(self.level.Y, rows)
        own, at = rows_of(Y), np.searchsorted(outputs, Y.indices)
        target[own, at] = Y.data
        cost = take_rows(
            Csr(self.level.Y.indptr, self.level.Y.indices, self.level.cost, self.level.Y.shape), rows
        ).data
        weights = self.data.row_weights
        if weights is None:
            negative[places, column], positive[own, at] = alpha, cost
        else:  # what a row counts as a negative is for labels that are not its targets, also not soft ones
            negative[places, column] = alpha * weights[rows[places], 1]
            negative[own, at] = alpha * weights[rows[own], 0]
            positive[own, at] = cost * weights[rows[own], 0]
        return LevelOutputs(outputs.astype(np.int64), target, positive, negative)

    def validate(self, encoder: TextEncoder) -> float | None:
        """P@1 among the children of predicted parents, over the rows held out."""
        if not len(self.held_out):
            return None
        order = self.held_out[np.argsort(self.data.tokens.lengths[self.held_out], kind="stable")]
        portions = range(0, len(order), self.step_rows)
        hits = sum(self._hits(encoder, order[start : start + self.step_rows]) for start in portions)
        return hits / len(order)

    def checkpointed(self, step: int) -> None:
        """Steps need nothing that would have to be kept."""

    def memory_advice(self, settings: EncoderSettings) -> str:
        return smaller_passes(settings)

    def _hits(self, encoder: TextEncoder, rows: np.ndarray) -> int:
        places, children = candidate_pairs(self.reached, self.level.child_ptr, rows)
        outputs, column = np.unique(children, return_inverse=True)
        margins = np.full((len(rows), len(outputs)), -np.inf, np.float32)
        weights = torch.from_numpy(np.ascontiguousarray(self.table.weights[outputs]))
        embeddings = encoder(self.data.tokens.batch(rows)).cpu()
        found = (embeddings @ weights.T).numpy() + self.table.bias[outputs]
        margins[places, column] = found[places, column]
        best = outputs[margins.argmax(axis=1)]
        Y = take_rows(self.level.Y, rows)
        return int(np.count_nonzero(best[rows_of(Y)] == Y.indices))
