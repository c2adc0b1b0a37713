"""UniDEC as a task of `fine_tune` (paper 5, algorithm 1): batches of like queries, a pool of labels for each, the
losses of both heads on it, and a refresh of clusters and hard negatives every τ epochs. A step touches the tokens of
the batch, those of the pool's labels and the pool's rows of the classifier, whatever the number of labels."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from xmcspark.errors import InputError, StoreError
from xmcspark.labels.cooccurrence import Neighbours
from xmcspark.labels.draws import streams
from xmcspark.neural.batch import Batch
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.glas import batch_penalty
from xmcspark.neural.length_batches import forward_passes
from xmcspark.neural.processes import Processes
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import ClassifierHead, DualHead, Head, Heads
from xmcspark.neural.unidec.label_pool import LabelPool, PoolSampler
from xmcspark.neural.unidec.losses import UNLIKE, Pairs, PoolLoss, binary_cross_entropy
from xmcspark.neural.unidec.query_batches import query_batches
from xmcspark.neural.unidec.refresh import Refresh, Refresher
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.sparse.rows import take_rows

# What a forward pass costs by itself, in tokens: on a CPU little (MiniLM, one thread: 48 to 128 are alike), on a GPU,
# which waits for what it is told to do, more than any padding.
_PASS, _LAUNCHED_PASS = 64, 1 << 20


@dataclass
class UnidecTask:
    """What is trained of a model: the heads that there are, and the classifier's table."""

    name: str
    data: UnidecData
    settings: UnidecSettings
    encoder: TextEncoder
    heads: Heads
    table: RowTable | None
    rows: np.ndarray  # int64, increasing: instances that are trained on, all with labels
    steps: int
    seed: int
    folder: Path  # of this process alone, where refreshes are kept
    embedder: Embedder = field(default_factory=Embedder)
    threads: int = 1
    graph: Neighbours | None = None  # for GLaS's regulariser
    validator: Callable[[TextEncoder], float] | None = None  # how good the model is now
    first_folder: Path | None = None  # that of the first process: elsewhere, training goes on with that alone

    def __post_init__(self) -> None:
        if (self.heads.classifier is None) != (self.table is None):
            raise InputError(
                "a classifier head and its table of label vectors belong together: give both or none"
            )
        if self.settings.batch_size < 2 * self.processes.world:
            raise InputError(
                f"unidec.batch_size is {self.settings.batch_size} for {self.processes.world} processes: give each at "
                "least two queries"
            )
        if self.heads.dual is not None and self.data.label_tokens is None:
            raise InputError(
                "labels have no texts, which the dual head compares with: train the classifier alone"
            )
        if not len(self.rows):
            raise InputError("no instance to train on has a label: there is nothing to learn")
        self._step = -1
        self._refresh: tuple[int, Refresh] | None = None
        self._epoch: tuple[int, list[np.ndarray]] | None = None
        self.pools: dict[str, PoolSizes] = {}  # by head

    @property
    def processes(self) -> Processes:
        return self.embedder.processes

    @property
    def tables(self) -> Sequence[RowTable]:
        return () if self.table is None else (self.table,)

    @property
    def modules(self) -> Sequence[torch.nn.Module]:
        return self.heads.modules

    @cached_property
    def labels(self) -> np.ndarray:
        """int64, increasing: labels of the instances that are trained on. Pools hold no others: a label that only
        instances held out have would be a wrong answer, always."""
        return self.data.labels_of(self.rows)

    @property
    def rate_settings(self) -> Sequence[str]:
        return ("unidec.head_learning_rate", *(("unidec.table_learning_rate",) if self.tables else ()))

    @property
    def step_rows(self) -> int:
        return self.settings.batch_size

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.rows) // self.settings.batch_size)

    def batch(self, step: int) -> np.ndarray:
        """A cluster of queries; each query once an epoch. Every τ epochs everything is clustered anew."""
        epoch, at = divmod(step, self.steps_per_epoch)
        self._step = step
        number = self._refresh_of(step)
        if self._refresh is None or self._refresh[0] != number:
            self._refresh, self._epoch = (number, self._refreshed(number)), None
        if self._epoch is None or self._epoch[0] != epoch:
            size, least = self.settings.batch_size, self.processes.world
            order = self._refresh[1].order
            self._epoch = epoch, query_batches(order, size, least=least, seed=self.seed, epoch=epoch)
        return np.array(self._epoch[1][at])  # of its own: torch takes no arrays that are mapped to be read

    def _refreshed(self, number: int) -> Refresh:
        """As it was kept, by the first process where its folder is seen: what others kept of a run that was killed
        while it was made may be of other last bits. Made now if this is its first step."""
        kept = place = self._place(number)
        if self.first_folder is not None and Refresh.is_kept(self.first_folder / place.name):
            kept = self.first_folder / place.name
        if self.processes.all_have(Refresh.is_kept(kept)):
            return Refresh.open(kept)
        first = number * self.settings.refresh_epochs * self.steps_per_epoch
        if self._step != first:
            raise StoreError(
                f"{place} is missing, and training goes on at step {self._step}, after it was made: "
                "remove the checkpoints and start again, or bring the folder back"
            )
        self._refresher.write(place, self.encoder, number)
        return Refresh.open(place)

    def checkpointed(self, step: int) -> None:
        """Forgets the refreshes before that of `step`. They cannot go any earlier: a run that is killed long after its
        last checkpoint needs them again, and has no longer the weights they were made with."""
        needed = self._refresh_of(step)
        for place in self.folder.glob(f"{self.name}-refresh-*"):
            if int(place.name.rpartition("-")[2]) < needed:
                shutil.rmtree(place, ignore_errors=True)

    def memory_advice(self, settings: EncoderSettings) -> str:
        """encoder.batch_size does nothing here. What makes the same steps comes first."""
        own = self.settings
        same = (
            f"unidec.texts_at_once below {own.texts_at_once}" if own.recompute else "unidec.recompute to true"
        )
        pools = " and ".join(f"a pool of {sizes.last} labels ({head})" for head, sizes in self.pools.items())
        return (
            f"{settings.batch_size} queries and {pools or 'their labels'} do not fit into memory: set {same}, which "
            f"makes the same steps and goes on from the last checkpoint; or start again {self._smaller_steps()}"
        )

    def _smaller_steps(self) -> str:
        """With what other settings steps take less memory."""
        queries = f"with a unidec.batch_size below {self.settings.batch_size}"
        if self.settings.reduction == "pal":
            return f"{queries}, or with a unidec.reduction of psl, whose pools do not hold all labels"
        own = "pool_size" if self.settings.classifier_pool_size is None else "classifier_pool_size"
        names = {"dual": "pool_size", "classifier": own}
        pools = {names[head]: sizes.last for head, sizes in self.pools.items()}
        found = [queries]
        for name, size in pools.items():
            if name == "classifier_pool_size" and size > (self.settings.classifier_pool or size):
                found.append("fewer unidec.positives and unidec.hard_negatives")  # which no size cuts
            else:
                found.append(f"a unidec.{name} below {size}")
        return " or ".join(found)

    def _refresh_of(self, step: int) -> int:
        return step // (self.settings.refresh_epochs * self.steps_per_epoch)

    def _place(self, number: int) -> Path:
        return self.folder / f"{self.name}-refresh-{number}"

    @cached_property
    def _refresher(self) -> Refresher:
        return Refresher(
            self.data,
            self.rows,
            self.labels,
            self.heads,
            self.table,
            self.settings,
            self.embedder,
            self.seed,
            self.threads,
            self.folder / f"{self.name}-refreshing",
        )

    @cached_property
    def _sampler(self) -> PoolSampler:
        """pol brings one positive of each query, pal all of them (paper 5, section 2.3.1)."""
        some = {"psl": self.settings.positives, "pol": 1, "pal": None}[self.settings.reduction]
        negatives, size = self.settings.hard_negatives, self.settings.pool_size
        return PoolSampler(some, negatives, size, self.seed, None if size is None else self.labels)

    @cached_property
    def _classifier_sampler(self) -> PoolSampler:
        """Draws all that queries bring, and more; with pal all labels join what it draws."""
        size = self.settings.classifier_pool
        if self.settings.classifier_pool_size is None or self.settings.reduction == "pal":
            return self._sampler
        return replace(self._sampler, size=size, others=self.labels, at_least=True)

    def _pools(self, batch: np.ndarray) -> dict[str, LabelPool]:
        """Of each head there is."""
        if self._refresh is None:
            raise InputError("a loss was asked for before a batch: call batch(step) first")
        drawn = self.data.Y, batch, self._step, self._refresh[1].mined
        found = {}
        if self.heads.dual is not None:
            found["dual"] = self._sampler.pool(*drawn)
        if self.heads.classifier is not None:
            pool = self._classifier_sampler.pool(*drawn)
            found["classifier"] = pool.among(self.labels) if self.settings.reduction == "pal" else pool
        for head, pool in found.items():
            self.pools.setdefault(head, PoolSizes()).add(pool)
        return found

    def loss(self, encoder: TextEncoder, rows: np.ndarray) -> Tensor:
        """The loss of the whole batch, in every process: each encodes its share of queries and labels, and all get all
        embeddings. `fine_tune` weighs processes by their rows, which adds up to 1, so that the step is that of one
        process, for embeddings, heads, temperatures and label rows alike."""
        batch = np.concatenate(self.processes.gather(rows))
        pools = self._pools(batch)
        queries = self._encoded(encoder, self.data.tokens, rows)
        losses = []
        if self.heads.dual is not None and self.data.label_tokens is not None:
            own = np.array_split(pools["dual"].labels, self.processes.world)[self.processes.rank]
            texts = self._encoded(encoder, self.data.label_tokens, own)
            losses.append(self._dual_loss(self.heads.dual, queries, texts, pools["dual"], batch))
        if self.heads.classifier is not None and self.table is not None:
            head, pool = self.heads.classifier, pools["classifier"]
            losses.append(self._classifier_loss(head, self.table, queries, pool, batch))
        if len(losses) == 1:
            return losses[0]
        return self.settings.share * losses[0] + (1 - self.settings.share) * losses[1]

    def _dual_loss(
        self, head: DualHead, queries: Tensor, texts: Tensor, pool: LabelPool, batch: np.ndarray
    ) -> Tensor:
        from_queries, from_labels = (self._gathered(head, part) for part in (queries, texts))
        with torch.autocast(queries.device.type, enabled=False):
            loss = self._pool_loss(self.settings.dual_loss, self.settings.dual_share)
            pairs, weights = self._pairs(pool, queries.device), self._weights(batch, queries.device)
            similarity = self._without_excluded(from_queries @ from_labels.T, pool, batch)
            return loss(similarity, pairs, head.temperature, weights)

    def _classifier_loss(
        self, head: ClassifierHead, table: RowTable, queries: Tensor, pool: LabelPool, batch: np.ndarray
    ) -> Tensor:
        settings, device = self.settings, queries.device
        from_queries, (labels, _) = self._gathered(head, queries), table.gathered(pool.labels, device)
        with torch.autocast(device.type, enabled=False):
            similarity = self._without_excluded(from_queries @ labels.T, pool, batch)
            pairs, weights = self._pairs(pool, device), self._weights(batch, device)
            loss = self._pool_loss(settings.classifier_loss, settings.classifier_share)
            total = loss(similarity, pairs, head.temperature, weights)
            if settings.bce:
                scores = similarity / head.temperature + head.offset
                total = total + settings.bce * binary_cross_entropy(scores, pairs, weights)
            if settings.glas and self.graph is not None:
                drawn = streams(self.seed, f"labels compared in step {self._step}", pool.labels)
                total = total + settings.glas * batch_penalty(self.graph, pool.labels, labels, drawn)
            return total

    def _without_excluded(self, similarity: Tensor, pool: LabelPool, batch: np.ndarray) -> Tensor:
        """Similarities that no loss notices where a label is excluded for a query."""
        if self.data.excluded is None:
            return similarity
        row, column = pool.cells_of(take_rows(self.data.excluded, batch))
        return similarity.index_put(
            tuple(torch.from_numpy(place).to(similarity.device) for place in (row, column)),
            similarity.new_tensor(UNLIKE),
        )

    def _gathered(self, head: Head, embeddings: Tensor) -> Tensor:
        """What a head makes of all processes' embeddings."""
        return self.processes.gather_with_gradient(head(embeddings).float())

    def _pool_loss(self, kind: str, share: float) -> PoolLoss:
        one = self.settings.reduction == "pol"
        return PoolLoss(kind, one, share, self.settings.margin, self.settings.triplet_negatives)

    def _pairs(self, pool: LabelPool, device: torch.device) -> Pairs:
        arrays = (pool.row, pool.column, pool.target, pool.one_of_row, pool.one_of_column)
        return Pairs(*(torch.from_numpy(array).to(device) for array in arrays))

    def _weights(self, batch: np.ndarray, device: torch.device) -> Tensor | None:
        weights = self.data.row_weights
        return None if weights is None else torch.from_numpy(weights[batch].astype(np.float32)).to(device)

    def _encoded(self, encoder: TextEncoder, tokens: TokenStore, rows: np.ndarray) -> Tensor:
        """[rows, width]: texts of like length pass forward together."""
        if not len(rows):  # others wait for this process's part, so there must be one to find back through
            return self._passed(encoder, tokens.batch(np.zeros(1, np.int64)))[:0]
        overhead = _PASS if encoder.device.type == "cpu" else _LAUNCHED_PASS
        parts = forward_passes(tokens.lengths[rows], self.settings.texts_at_once, overhead)
        passed = torch.cat([self._passed(encoder, tokens.batch(rows[part])) for part in parts])
        return passed[torch.from_numpy(np.argsort(np.concatenate(parts))).to(passed.device)]

    def _passed(self, encoder: TextEncoder, batch: Batch) -> Tensor:
        if not self.settings.recompute:
            return encoder.unit(batch)
        there = batch.to(encoder.device)
        again: Tensor = checkpoint(
            lambda ids, mask: encoder.unit(Batch(ids, mask)), there.ids, there.mask, use_reentrant=False
        )
        return again

    def validate(self, encoder: TextEncoder) -> float | None:
        return None if self.validator is None else self.validator(encoder)


@dataclass
class PoolSizes:
    """What the pools of a head were like since training began in this process (paper 5, figure 2.2b, table 2.3)."""

    steps: int = 0
    labels: int = 0
    last: int = 0  # labels of the last one
    positives: float = 0.0

    def add(self, pool: LabelPool) -> None:
        self.steps += 1
        self.last = len(pool.labels)
        self.labels += self.last
        self.positives += pool.average_positives

    @property
    def average_labels(self) -> float:
        """The mean of |L_B|."""
        return self.labels / max(1, self.steps)

    @property
    def average_positives(self) -> float:
        """The mean of |P^B| over queries and steps."""
        return self.positives / max(1, self.steps)
