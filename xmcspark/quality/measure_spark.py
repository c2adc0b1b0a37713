"""Metrics of instances and their predictions on Spark: what each partition of rows adds goes to the owners of blocks
of labels, who add it up; the driver gets one line from each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.matchers.exclusion import drop_entries
from xmcspark.matchers.predictions_arrow import predictions_of_lists
from xmcspark.quality.error_tables import added_confusions, confusions, label_errors
from xmcspark.quality.label_pairs import PAIR, no_deviations, pair_deviations, with_sample
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_profile_files import load_profile, save_profile
from xmcspark.quality.label_statistics import with_all_labels
from xmcspark.quality.metric_parts import (
    added_counts,
    block_label_sums,
    block_metrics,
    blocks_of_labels,
    counts_table,
    cut_by_block,
    no_label_sums,
    no_row_replicates,
    no_row_sums,
    with_bytes,
)
from xmcspark.quality.metric_sums import MetricRow
from xmcspark.quality.replicates import Replicates
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.placement import partition_keys
from xmcspark.store.session import arrow_batch, slots_of
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context

MEASURED_COLUMNS = ("id", "labels", "relevance", "excluded", "predicted", "scores")
ANY_LABEL = 2**31 - 1
_BATCH_RECORDS = 64  # parts of a few 100 kB
_BLOCK_ROWS = 1 << 14  # instances evaluated together
_PIECE_BYTES = 1 << 18  # of what is about a block of labels
_ADDERS = 8  # tasks that add up sums over rows
_HELD_LINES = 1 << 20  # of confusions, before they are added up
_COUNTERS = ("instances", "unpredicted", "excluded")
_BINARIES = ("sums", "replicates", "counts", "pairs", "confusions")
_NUMBERS = ", ".join(f"{name} bigint" for name in _COUNTERS)
_PARTS = f"key int, {', '.join(f'{name} binary' for name in _BINARIES)}, {_NUMBERS}"
_TOTAL_BINARIES = ("sums", "replicates", "label_sums", "deviations", "errors")
_TOTALS = f"{', '.join(f'{name} binary' for name in _TOTAL_BINARIES)}, {_NUMBERS}"


@dataclass(frozen=True)
class Measuring:
    """What tasks need to measure, and where they find the label profile."""

    folder: SideFolder
    ks: tuple[int, ...]
    bootstrap: int
    keys: tuple[int, ...] = ()  # of each block of labels, for Spark's partitioning
    block_labels: int = 1
    errors: bool = False  # whether errors by label are wanted

    def profile(self) -> LabelProfile:
        return _opened(str(self.folder.path()))


@lru_cache(maxsize=1)
def _opened(folder: str) -> LabelProfile:
    return load_profile(Path(folder))


@dataclass(frozen=True)
class Measured:
    rows: list[MetricRow]
    replicates: Replicates
    counted: dict[str, int]  # instances, those without predictions, true labels that were excluded


def send_profile(context: Context, profile: LabelProfile, ks: tuple[int, ...], bootstrap: int) -> Measuring:
    """Makes a profile available to all tasks."""
    with tempfile.TemporaryDirectory(prefix="xmcspark-profile-") as place:
        save_profile(profile, Path(place, "profile"))
        return Measuring(send_made_folder(context, Path(place, "profile"), "profile"), ks, bootstrap)


def measuring_rows(sent: Measuring, spark: SparkSession, n_labels: int, n_rows: int) -> Measuring:
    """For so many rows: how labels are cut into blocks."""
    blocks, block_labels = blocks_of_labels(n_labels, n_rows, max(sent.ks), slots_of(spark))
    keys = tuple(partition_keys(blocks))
    return Measuring(sent.folder, sent.ks, sent.bootstrap, keys, block_labels)


def measure(
    frame: DataFrame,
    profile: LabelProfile,
    sent: Measuring,
    take_label_errors: Callable[[DataFrame], None] | None = None,
) -> Measured:
    """The metrics of a frame with MEASURED_COLUMNS. `take_label_errors` is given the errors by label, packed, to write
    them."""
    spark = frame.sparkSession
    with arrow_batch(spark, _BATCH_RECORDS):
        parts = frame.select(*MEASURED_COLUMNS).mapInArrow(partial(_parts, sent), _PARTS)
        totals = parts.repartition(len(sent.keys), "key").mapInArrow(partial(_totals, sent), _TOTALS)
        if take_label_errors is None:
            return _measured(totals, profile, sent)
        totals = totals.persist()  # two ways to read one shuffle
        try:
            found = _measured(totals.where(F.col("errors").isNull()), profile, sent)
            errors = totals.where(F.col("errors").isNotNull()).select("errors")
            take_label_errors(errors)
        finally:
            totals.unpersist()
    return found


def _measured(totals: DataFrame, profile: LabelProfile, sent: Measuring) -> Measured:
    collected = totals.drop("errors").collect()  # one row per block of labels
    ks, count = sent.ks, sent.bootstrap
    rows = with_bytes(no_row_sums(profile, ks), *(row.sums for row in collected))
    added = with_bytes(no_label_sums(profile, ks), *(row.label_sums for row in collected))
    labels = with_all_labels(added, profile)
    of_rows = with_bytes(no_row_replicates(profile, ks, count), *(row.replicates for row in collected))
    deviations = with_bytes(no_deviations(profile, ks, count), *(row.deviations for row in collected))
    replicates = of_rows.and_of(with_sample(deviations, labels))
    return Measured(
        rows.to_rows(replicates) + labels.to_rows(replicates),
        replicates,
        {name: sum(row[name] for row in collected) for name in _COUNTERS},
    )


def _parts(sent: Measuring, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the rows of a partition add. What is about labels is cut by where it is added up; sums over rows, which
    anybody may add up, come last."""
    profile = sent.profile()
    sums, counters = no_row_sums(profile, sent.ks), np.zeros(len(_COUNTERS), np.int64)
    replicates = no_row_replicates(profile, sent.ks, sent.bootstrap)
    for table in _blocks(batches):
        truth = csr_of_lists(table.column("labels"), table.column("relevance"), ANY_LABEL, "instances")
        excluded = csr_of_lists(table.column("excluded"), None, ANY_LABEL, "exclude")
        left = drop_entries(truth, excluded)
        found = predictions_of_lists(table.column("predicted"), table.column("scores"))
        row_keys = text_hashes(table.column("id").combine_chunks())
        part = block_metrics(found, left, profile, sent.ks, sent.bootstrap, row_keys)
        sums, replicates = sums + part.rows, replicates + part.replicates
        counters += (table.num_rows, table.column("predicted").null_count, truth.nnz - left.nnz)
        counts = counts_table(part.labels)
        yield from _pieces(sent, "counts", counts, counts[:, 0])
        yield from _pieces(sent, "pairs", part.pairs, part.pairs["label"])
        if sent.errors:
            confused = confusions(found, left, max(sent.ks))
            yield from _pieces(sent, "confusions", confused, confused[:, 0])
    if counters.any():
        task = TaskContext.get()
        to = sent.keys[(task.partitionId() if task is not None else 0) % min(_ADDERS, len(sent.keys))]
        parts = {"sums": sums.values.tobytes(), "replicates": replicates.values.tobytes()}
        yield _line(_BINARIES, parts, counters, key=to)


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _BLOCK_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if sum(b.num_rows for b in held):
        yield pa.Table.from_batches(held)


def _pieces(sent: Measuring, name: str, lines: np.ndarray, labels: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Lines about labels, for the owners of their blocks."""
    most = _PIECE_BYTES // (lines.itemsize * int(np.prod(lines.shape[1:])))
    for block, piece in cut_by_block(lines, labels, sent.block_labels, most):
        yield _line(_BINARIES, {name: piece.tobytes()}, np.zeros(len(_COUNTERS), np.int64), sent.keys[block])


def _line(
    names: tuple[str, ...], binaries: dict[str, bytes], counters: np.ndarray, key: int | None = None
) -> pa.RecordBatch:
    columns = {} if key is None else {"key": pa.array([key], pa.int32())}
    columns |= {name: pa.array([binaries.get(name)], pa.binary()) for name in names}
    columns |= {name: pa.array([n], pa.int64()) for name, n in zip(_COUNTERS, counters, strict=True)}
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _totals(sent: Measuring, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Everything about a block of labels, added up: all its parts are in this partition."""
    profile, ks = sent.profile(), sent.ks
    sums, replicates = no_row_sums(profile, ks), no_row_replicates(profile, ks, sent.bootstrap)
    counts = _Lines(2 + 2 * len(ks), added_counts, 2 * sent.block_labels)
    confused = _Lines(3, added_confusions, _HELD_LINES)
    pairs = [np.empty(0, PAIR)]
    counters = np.zeros(len(_COUNTERS), np.int64)
    for batch in batches:
        there = {name: batch.column(name).drop_null().to_pylist() for name in _BINARIES}
        counters += [batch.column(name).to_numpy().sum() for name in _COUNTERS]
        sums, replicates = with_bytes(sums, *there["sums"]), with_bytes(replicates, *there["replicates"])
        counts.add(there["counts"])
        confused.add(there["confusions"])
        pairs += [np.frombuffer(part, PAIR) for part in there["pairs"]]
    deviations = pair_deviations(np.concatenate(pairs), profile, ks, sent.bootstrap)
    label_sums = block_label_sums(counts.added(), profile, ks)
    totals = {"label_sums": label_sums.values.tobytes(), "deviations": deviations.values.tobytes()}
    if counters.any():
        totals |= {"sums": sums.values.tobytes(), "replicates": replicates.values.tobytes()}
    yield _line(_TOTAL_BINARIES, totals, counters)
    if sent.errors:
        yield from _packed_errors(sent, counts.added(), confused.added())


class _Lines:
    """Lines of whole numbers that are added up now and then, so that they stay few."""

    def __init__(self, width: int, add: Callable[[list[np.ndarray]], np.ndarray], most: int) -> None:
        self._width, self._add, self._most = width, add, most
        self._held = [np.empty((0, width), np.int64)]

    def add(self, parts: list[bytes]) -> None:
        self._held += [np.frombuffer(part, np.int64).reshape(-1, self._width) for part in parts]
        if sum(map(len, self._held)) > self._most:
            self._held = [self.added()]
            self._most = max(self._most, 2 * len(self._held[0]))

    def added(self) -> np.ndarray:
        return self._add(self._held)


def _packed_errors(sent: Measuring, counts: np.ndarray, confused: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Errors by label, some thousand to a string."""
    positives = sent.profile().positives
    assert positives is not None
    most = max(1, (1 << 14) // len(sent.ks))
    for start in range(0, len(counts), most):
        some = counts[start : start + most]
        first, last = np.searchsorted(confused[:, 0], (some[0, 0], some[-1, 0] + 1))
        columns = label_errors(some, confused[first:last], positives[some[:, 0]], sent.ks)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        packed = {"errors": sink.getvalue().to_pybytes()}
        yield _line(_TOTAL_BINARIES, packed, np.zeros(len(_COUNTERS), np.int64))


def unpacked_errors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column("errors"):
            yield from pa.ipc.open_stream(packed.as_buffer())
