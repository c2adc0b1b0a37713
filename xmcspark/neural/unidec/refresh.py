"""What is made anew every τ epochs (paper 5, algorithm 1): clusters of queries, which become batches, and a list of
hard negatives for each query, the nearest labels that are not its own. It is kept on disk, because a run that is
resumed in between has other weights than those it was made with."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from xmcspark.matchers.targets import rows_of
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import Heads
from xmcspark.neural.unidec.nearest import ExactLabels, LabelIndex, NearestLabels
from xmcspark.neural.unidec.query_batches import clustered_order
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.neural.unidec.vectors import LabelSource, SearchSpace, text_vectors
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import HEADER, load_arrays, save_arrays

log = logging.getLogger(__name__)

_KIND, _VERSION = "refresh of UniDEC", 2
_SEARCHED = 4096  # queries that are searched at once


@dataclass(frozen=True)
class Refresh:
    """What holds until the next one."""

    order: np.ndarray  # int64: trained instances, clusters of the batch's size one after the other
    # int32 [instances, settings.mined]: hard negatives, nearest first; -1 where there are fewer
    mined: np.ndarray | None

    def save(self, folder: Path) -> None:
        arrays = {"order": self.order} | ({} if self.mined is None else {"mined": self.mined})
        save_arrays(folder, _KIND, _VERSION, {}, arrays)

    @staticmethod
    def is_kept(folder: Path) -> bool:
        return (folder / HEADER).exists()

    @staticmethod
    def open(folder: Path) -> Refresh:
        """What was kept there, mapped."""
        _, arrays = load_arrays(folder, _KIND, _VERSION)
        return Refresh(arrays["order"], arrays.get("mined"))


@dataclass(frozen=True)
class Refresher:
    """Makes refreshes of one training run."""

    data: UnidecData
    rows: np.ndarray  # int64, increasing: the instances that are trained on
    labels: np.ndarray  # int64, increasing: and the labels they have
    heads: Heads
    table: RowTable | None
    settings: UnidecSettings
    embedder: Embedder
    seed: int
    threads: int
    scratch: Path  # of this process alone

    def write(self, folder: Path, encoder: TextEncoder, number: int) -> None:
        """Refresh `number`, with the weights of now. Every process writes the same, each for itself."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        try:
            self._made(encoder, number).save(folder)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _made(self, encoder: TextEncoder, number: int) -> Refresh:
        space = SearchSpace(self.heads, "classifier" if self.heads.dual is None else "dual")
        shape = (len(self.rows), space.width)
        queries = open_memmap(self.scratch / "queries.npy", "w+", np.float32, shape)
        text_vectors(encoder, space.queries, self.data.tokens, self.rows, self.embedder, queries)
        size, seed = self.settings.batch_size, self.seed + number
        order = clustered_order(queries, size, seed=seed, threads=self.threads)
        order = self.embedder.processes.gather(order)[0]  # rounding may differ between machines
        if not self.settings.mined:
            return Refresh(self.rows[order], None)
        table = None if self.table is None else self.table.weights
        source = LabelSource(encoder, space, self.data.label_tokens, table, embedder=self.embedder)
        vectors = source.write(self.scratch / "labels", self.labels)
        index = opened_index(
            self.settings, vectors.vectors, self.labels, queries, self.scratch / "index", self.threads
        )
        log.info(
            "hard negatives of %d queries among %d labels (refresh %d)",
            len(queries),
            len(self.labels),
            number,
        )
        return Refresh(self.rows[order], self._mined(index, queries))

    def _mined(self, index: LabelIndex, queries: np.ndarray) -> np.ndarray:
        """Of all instances; each process searches its share."""
        processes, most = self.embedder.processes, self.settings.mined
        own = np.arange(processes.rank, len(queries), processes.world)
        parts = [np.zeros((0, most), np.int32)]
        for start in range(0, len(own), _SEARCHED):
            place = own[start : start + _SEARCHED]
            parts.append(hard_negatives(index, queries[place], self.data, self.rows[place], most))
        mined = open_memmap(self.scratch / "mined.npy", "w+", np.int32, (len(self.data), most))
        mined[:] = -1
        for rank, found in enumerate(processes.gather(np.concatenate(parts))):
            mined[self.rows[rank :: processes.world]] = found
        return mined


def hard_negatives(
    index: LabelIndex, queries: np.ndarray, data: UnidecData, rows: np.ndarray, most: int
) -> np.ndarray:
    """int32 [rows, most]: of each query the nearest labels that are neither its own nor excluded for it, nearest first;
    -1 where there are fewer. `rows`: the queries' rows of the data."""
    known = [take_rows(labels, rows) for labels in (data.Y, data.excluded) if labels is not None]
    counts = sum(np.diff(labels.indptr) for labels in known)
    k = min(len(index), most + min(int(np.max(counts, initial=0)), 3 * most))
    found, _ = index.search(queries, k)
    of_query = [rows_of(labels) * data.Y.shape[1] + labels.indices for labels in known]
    cells = np.arange(len(rows))[:, None] * data.Y.shape[1] + found
    unusable = np.isin(cells, np.concatenate(of_query)) | (found < 0)
    order = np.argsort(unusable, axis=1, kind="stable")[:, :most]
    chosen = np.where(
        np.take_along_axis(unusable, order, axis=1), -1, np.take_along_axis(found, order, axis=1)
    )
    return np.pad(chosen, ((0, 0), (0, most - chosen.shape[1])), constant_values=-1).astype(np.int32)


def opened_index(
    settings: UnidecSettings,
    vectors: np.ndarray,
    ids: np.ndarray,
    queries: np.ndarray,
    folder: Path,
    threads: int = 1,
    identity: str = "",
) -> LabelIndex:
    """What the settings search with: an index made in `folder`, tuned on `queries`, or no index at all."""
    if settings.searches_all(len(vectors)):
        return ExactLabels(vectors, ids)
    return NearestLabels.write(
        folder, vectors, ids, queries=queries, recall=settings.recall, identity=identity, threads=threads
    )
