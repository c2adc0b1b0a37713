"""One wave of training: rows travel to the tasks of their units as packed strings, each task trains one unit after
the other, and what it yields is written. A task that runs twice is committed once (store/direct_writing.py)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, AccumulatorParam, TaskContext

from xmcspark.matchers.matcher_rows import ROWS, matcher_rows
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.packed_model import packed_level
from xmcspark.matchers.packed_parts import PartsFile
from xmcspark.matchers.packed_rows import TrainingRows, packed_rows, unpacked_rows
from xmcspark.matchers.peak_memory import PeakMemory
from xmcspark.matchers.routing import Router, target_range
from xmcspark.matchers.row_selection import RowCap
from xmcspark.matchers.row_store import RowStore, keep_rows, references
from xmcspark.matchers.schedule import Task, Work
from xmcspark.matchers.search import Searcher
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import by_position, row_totals
from xmcspark.matchers.train_unit import TrainedUnit, train_unit
from xmcspark.matchers.trainer import ALL_INPUTS, in_one_node
from xmcspark.sparse.arrow import csr_of_lists, csr_of_targets
from xmcspark.sparse.csr import Csr
from xmcspark.store.arrays import HEADER
from xmcspark.store.direct_tables import ArrowFunction, MappedRows, Rows
from xmcspark.store.exchange import Delivery, Sender, common_folder, exchanged
from xmcspark.store.placement import partition_keys
from xmcspark.store.side_files import SideFolder
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES
from xmcspark.text.feature_table import FeatureSpace
from xmcspark.tree.label_tree import LabelTree

ARROW_RECORDS = 512  # a batch: of packed strings that is 64 MB
_GROUP_ROWS, _GROUP_ENTRIES = 1 << 16, 1 << 22  # routed at once: more rows make fuller strings
_PACKED = "task int, place int, payload binary"
_PACKED_ARROW = pa.schema([("task", pa.int32()), ("place", pa.int32()), ("payload", pa.binary())])
PACKED_COLUMNS = tuple(_PACKED_ARROW.names)
_STRINGS = 64  # packed strings per batch

Loads = dict[tuple[int, int, int], dict[str, Any]]  # by member, unit and piece


class LoadsParam(AccumulatorParam[Loads]):
    """Gathers what units did cost. By key: a task that runs twice counts once."""

    def zero(self, value: Loads) -> Loads:
        return {}

    def addInPlace(self, value1: Loads, value2: Loads) -> Loads:  # noqa: N802  Spark's name
        value1.update(value2)
        return value1


@dataclass(frozen=True)
class Forest:
    """What all waves share: the trees and how they are trained. Travels with each task."""

    folder: SideFolder
    version: str
    settings: tuple[TrainSettings, ...]  # of each member
    caps: tuple[dict[int, RowCap], ...]  # of each member, by node
    space: FeatureSpace
    run: str
    threads: int
    made_weights: tuple[float, float] = (1.0, 1.0)  # of rows that an augmentation made, as `Trainer` has them
    parts_folder: str | None = None  # where tasks leave what they trained packed, if they see a common disk
    above: SideFolder | None = None  # of each member, the levels above that at hand, packed for search
    head: SideFolder | None = None  # a model whose first level is taken as it is (X-Transformer)
    inputs: str = ALL_INPUTS  # what of rows with embeddings the rest is trained on

    def tree(self, member: int) -> LabelTree:
        return _tree(str(self.folder.path() / str(member)), self.version)

    def given(self) -> Matchers | None:
        """The matchers of the root's children, if they are not trained."""
        return None if self.head is None else _first_level(str(self.head.path()), self.version)

    def copies(self, units: int) -> int:
        """How many of so many units a row may be sent to, beyond those of its labels, which are few."""
        settings = self.settings[0]
        return 1 if settings.negatives == "tfn" else max(1, min(settings.man_beam, units))

    def reached(self, X: Csr, member: int) -> Csr | None:
        """With matcher-aware negatives, the nodes of the level at hand that beam search opens for each row."""
        settings = self.settings[member]
        if settings.negatives == "tfn":
            return None
        if self.above is None:  # the root
            return in_one_node(X.shape[0])
        folder, beam = self.above.path() / str(member), settings.man_beam
        searcher = _searcher(str(folder), (folder / HEADER).stat().st_mtime_ns)
        found = searcher.predict(X, beam=beam, top_k=beam, threads=self.threads)
        return found.to_csr(searcher.tree.n_labels)


@lru_cache(maxsize=16)
def _tree(folder: str, version: str) -> LabelTree:
    """Opened once per worker process."""
    return LabelTree.load(Path(folder))


@lru_cache(maxsize=16)
def _searcher(folder: str, written: int) -> Searcher:
    """Opened once per worker process; `written` tells the folder from an earlier one at its place."""
    return Searcher.load(Path(folder))


@lru_cache(maxsize=2)
def _first_level(folder: str, version: str) -> Matchers:
    """Opened once per worker process."""
    return TreeModel.load(folder).matchers[0]


@dataclass(frozen=True)
class Wave:
    """The units of a wave, and the tasks they are trained in, heaviest first."""

    number: int
    tasks: tuple[Task, ...]
    works: tuple[Work, ...] = field(init=False)  # by place: the order in which tasks take them up
    keys: tuple[int, ...] = field(init=False)  # of each work: what Spark puts into its task's partition

    def __post_init__(self) -> None:
        keys = partition_keys(len(self.tasks))
        pairs = [(work, key) for task, key in zip(self.tasks, keys, strict=True) for work in task.works]
        object.__setattr__(self, "works", tuple(work for work, _ in pairs))
        object.__setattr__(self, "keys", tuple(key for _, key in pairs))

    @property
    def labels(self) -> int:
        return sum(work.unit.matchers for work in self.works if work.piece == 0)


@contextmanager
def routed_rows(
    context: Context, features: Rows, forest: Forest, wave: Wave
) -> Iterator[tuple[MappedRows, str | None]]:
    """The training rows of all units of a wave, packed, for their tasks and in the order of units; and the folder that
    their features are kept in, if they are."""
    columns = [*forest.space.columns, "labels", "targets", "row_key", "row_hash"]
    costs = ["relevance"] if forest.settings[0].cost_sensitive else []
    keys = partition_keys(len(wave.tasks))
    delivery = Delivery("task", len(keys), partial(_task_of_key, np.array(keys)), "place")
    with common_folder(context, "rows") as store:
        sender = Sender(features, (*columns, *costs), partial(_route, forest, wave, store))
        with exchanged(context, [sender], _PACKED, delivery) as rows:
            yield rows, store


def _task_of_key(keys: np.ndarray, sent: np.ndarray) -> np.ndarray:
    order = np.argsort(keys)
    return order[np.searchsorted(keys[order], sent)]


def training(forest: Forest, wave: Wave, store: str | None, loads: Accumulator[Loads]) -> ArrowFunction:
    """From `routed_rows` to rows of the table matchers."""
    return partial(_train, forest, wave, store, loads)


def _route(
    forest: Forest, wave: Wave, store: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    members = sorted({work.member for work in wave.works})
    places: dict[tuple[int, int], list[int]] = {}
    for place, work in enumerate(wave.works):
        places.setdefault((work.member, work.unit.unit), []).append(place)
    routers = {
        member: Router(
            forest.tree(member),
            [work.unit for work in wave.works if work.member == member and work.piece == 0],
            forest.caps[member],
            forest.settings[member].seed,
        )
        for member in members
    }
    out = _Strings()
    task = TaskContext.get()
    if task is None or task.partitionId() == 0:  # a unit that no row reaches is trained as well
        for place, key in enumerate(wave.keys):
            yield from out.add(key, place, None)
    for table in groups_of_rows(batches, forest.copies(len(wave.works))):
        X = forest.space.rows(table)
        name = keep_rows(Path(store), X) if store is not None else ""
        for member in members:
            whole = _rows_of(table, X, forest, member)
            if store is not None:
                whole = replace(whole, X=references(len(whole)))
            for unit, rows in routers[member].routed(whole):
                for payload in packed_rows(rows, store=name):
                    for place in places[member, unit.unit]:
                        yield from out.add(wave.keys[place], place, payload)
    yield from out.rest()


class _Strings:
    """Packed strings on their way out, several a batch."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int, bytes | None]] = []

    def add(self, task: int, place: int, payload: bytes | None) -> Iterator[pa.RecordBatch]:
        self._held.append((task, place, payload))
        if len(self._held) >= _STRINGS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        if self._held:
            columns = zip(*self._held, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _PACKED_ARROW, strict=True)]
            self._held = []
            yield pa.RecordBatch.from_arrays(arrays, schema=_PACKED_ARROW)


def groups_of_rows(batches: Iterator[pa.RecordBatch], copies: int = 1) -> Iterator[pa.Table]:
    """Batches of features gathered into tables of a good size, if so many copies will be made of each row."""
    held: list[pa.RecordBatch] = []
    rows = entries = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        entries += len(batch.column("indices").flatten())
        if copies * rows >= _GROUP_ROWS or copies * entries >= _GROUP_ENTRIES:
            yield pa.Table.from_batches(held)
            held, rows, entries = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _rows_of(table: pa.Table, X: Csr, forest: Forest, member: int) -> TrainingRows:
    """Rows of the table features with targets by leaf position; labels outside the tree are left out."""
    tree = forest.tree(member)
    ids = len(tree.position_of_label)
    Y = by_leaf(csr_of_targets(table["labels"], table["targets"], ids), tree)
    relevance = totals = None
    if forest.settings[member].cost_sensitive:
        costs = by_leaf(csr_of_lists(table["labels"], table["relevance"], ids, "labels"), tree)
        relevance, totals = costs.data, row_totals(costs)
    keys, hashes = table["row_key"].to_numpy(), table["row_hash"].to_numpy()
    weights = None
    if forest.made_weights != (1.0, 1.0):
        made = pc.is_valid(table["targets"]).to_numpy(zero_copy_only=False)
        weights = np.where(made[:, None], np.array(forest.made_weights, np.float32), np.float32(1))
    return TrainingRows(keys, hashes, X, Y, relevance, totals, forest.reached(X, member), weights)


def by_leaf(Y: Csr, tree: LabelTree) -> Csr:
    """Values of labels by leaf position; labels outside the tree are left out."""
    columns = max(Y.shape[1], int(Y.indices.max(initial=-1)) + 1)  # the tree may lack the last labels
    return by_position(Csr(Y.indptr, Y.indices, Y.data, (Y.shape[0], columns)), tree, outside="drop")


def _train(
    forest: Forest,
    wave: Wave,
    store: str | None,
    loads: Accumulator[Loads],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    kept = None if store is None else RowStore(Path(store))
    packed = _PackedUnits(forest.parts_folder, wave.number)
    for place, payloads in strings_by_place(batches):
        work = wave.works[place]
        tree, peak, started = forest.tree(work.member), PeakMemory(), time.process_time()
        first, last = target_range(tree, work.unit)
        settings = forest.settings[work.member]
        nodes = None if settings.negatives == "tfn" else work.unit.nodes
        rows = unpacked_rows(payloads, forest.space, last - first, settings.cost_sensitive, nodes, kept)
        unpacked = time.process_time()
        trained = train_unit(
            rows,
            tree,
            work.unit,
            settings,
            caps=forest.caps[work.member],
            piece=(work.piece, work.pieces),
            given=forest.given(),
            inputs=forest.inputs,
            threads=forest.threads,
        )
        size, entries = len(rows), rows.X.nnz
        del rows
        weights = 0
        for level in trained.levels:
            weights += level.matchers.n_weights
            yield from matcher_rows(tree, level, work.member, work.unit.unit, forest.run)
        parts = packed.add(trained) if work.pieces == 1 else []
        load = {
            "rows": size,
            "nnz": entries,
            "weights": weights,
            "unfinished": trained.unfinished,
            "peak_bytes": peak.bytes(),
            "seconds": time.process_time() - started,
            "unpack_seconds": unpacked - started,
            "parts": parts,
        }
        loads.add({(work.member, work.unit.unit, work.piece): load})
    packed.close()


class _PackedUnits:
    """Keeps units packed in a file of the task's own; nothing, without a folder."""

    def __init__(self, folder: str | None, wave: int) -> None:
        name = f"wave-{wave}-{uuid.uuid4().hex}.parts"
        self._file = None if folder is None else PartsFile(Path(folder) / name)

    def add(self, trained: TrainedUnit) -> list[list[Any]]:
        """Where its levels lie, as LevelPart.to_plain."""
        if self._file is None:
            return []
        return [self._file.add(level.level, packed_level(level)).to_plain() for level in trained.levels]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def strings_by_place(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[object]]]:
    """(place, its strings) one after the other, from batches in order of place. Strings are read in place."""
    now: int | None = None
    held: list[object] = []
    for batch in batches:
        places, payloads = batch.column("place").to_pylist(), batch.column("payload")
        for number, place in enumerate(places):
            if place != now:
                if now is not None:
                    yield now, held
                now, held = place, []
            payload = payloads[number]
            if payload.is_valid:
                held.append(payload.as_buffer())
        del payloads
    if now is not None:
        yield now, held


assert [f.name for f in ROWS] == TABLES["matchers"].names
