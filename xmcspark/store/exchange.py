"""Rows that tasks send to other tasks. Where all tasks see one disk they go through files: a task appends what it has
for each receiver to a file of its own, and the receiver maps those files into memory, so that large payloads never
pass through the JVM. Elsewhere it is Spark's shuffle; who receives what, and in what order, is the same."""

from __future__ import annotations

import mmap
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from xmcspark.store.direct_tables import ArrowFunction, Batches, FrameRows, MappedRows
from xmcspark.store.stage import Context

MOST_RECEIVERS = 256  # through files: a task has one open for each
_SENT = "receiver int, file string, bytes bigint"
_SENT_ARROW = pa.schema([("receiver", pa.int32()), ("file", pa.string()), ("bytes", pa.int64())])


@dataclass(frozen=True)
class Sender:
    """Rows, and the function that makes of some of their columns what is sent."""

    rows: MappedRows
    columns: tuple[str, ...]
    function: ArrowFunction


@dataclass(frozen=True)
class Delivery:
    """Who receives a row: by the number in a column. `receiver` gives it from the column's values, for files; Spark's
    shuffle takes the hash of the column. Receivers get their rows by rising `order`."""

    column: str
    receivers: int
    receiver: Callable[[np.ndarray], np.ndarray]
    order: str


@contextmanager
def common_folder(context: Context, name: str) -> Iterator[str | None]:
    """A folder of scratch that all tasks see, until the end; None where they do not see one disk."""
    folder = context.fs.local_path(context.scratch(f"{name}-{uuid.uuid4().hex}"))
    if folder is not None:
        Path(folder).mkdir(parents=True)
    try:
        yield folder
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def exchanged(
    context: Context, senders: Sequence[Sender], schema: str, delivery: Delivery
) -> Iterator[MappedRows]:
    """What the senders make, as rows of `schema`, a task for each receiver. Files go at the end."""
    folder = context.fs.local_path(context.scratch(f"exchange-{uuid.uuid4().hex}"))
    if folder is None or delivery.receivers > MOST_RECEIVERS:
        sent = [sender.rows.map(sender.columns, sender.function, schema) for sender in senders]
        every = reduce(DataFrame.unionByName, sent)
        shuffled = every.repartition(delivery.receivers, delivery.column)
        yield FrameRows(shuffled.sortWithinPartitions(delivery.order))
        return
    Path(folder).mkdir(parents=True)
    try:
        files: list[list[str]] = [[] for _ in range(delivery.receivers)]
        for sender in senders:
            write = partial(_write, folder, delivery, sender.function)
            for row in sender.rows.map(sender.columns, write, _SENT).collect():
                files[row["receiver"]].append(row["file"])
                context.exchanged.append(row["bytes"])
        yield DeliveredRows(context.spark, files, delivery.order)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class DeliveredRows:
    """The rows that lie in files for each receiver."""

    spark: SparkSession
    files: list[list[str]]
    order: str

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        tasks = 1 if together else len(self.files)
        read = partial(_read, self.files, tuple(columns), self.order, function)
        return self.spark.range(0, len(self.files), 1, tasks).mapInArrow(read, schema)


def _write(folder: str, delivery: Delivery, function: ArrowFunction, batches: Batches) -> Batches:
    """Appends what a task sends to files that no other attempt writes; yields which are whose."""
    name = uuid.uuid4().hex
    streams: dict[int, pa.RecordBatchStreamWriter] = {}
    paths: dict[int, str] = {}
    for batch in function(batches):
        to = delivery.receiver(batch.column(delivery.column).to_numpy())
        for receiver in np.unique(to).tolist():
            if receiver not in streams:
                paths[receiver] = f"{folder}/{receiver}-{name}.arrow"
                streams[receiver] = pa.ipc.new_stream(paths[receiver], batch.schema)
            mine = to == receiver
            streams[receiver].write_batch(batch if mine.all() else batch.filter(pa.array(mine)))
    for stream in streams.values():
        stream.close()
    if paths:
        sizes = [os.path.getsize(path) for path in paths.values()]
        columns = (list(paths), list(paths.values()), sizes)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, _SENT_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SENT_ARROW)


def _read(
    files: list[list[str]], columns: tuple[str, ...], order: str, function: ArrowFunction, tasks: Batches
) -> Batches:
    numbers = [number for batch in tasks for number in batch.column(0).to_pylist()]
    yield from function(
        batch.select(list(columns)) for number in numbers for batch in _in_order(files[number], order)
    )


def _in_order(files: list[str], order: str) -> Iterator[pa.RecordBatch]:
    """The rows of all files by rising `order`, in the files' place: few rows of large payloads, one at a time."""
    maps = [_mapped(file) for file in sorted(files)]
    batches = [batch for one in maps for batch in pa.ipc.open_stream(pa.py_buffer(one))]
    if not batches:
        return
    values = np.concatenate([batch.column(order).to_numpy() for batch in batches])
    sizes = [batch.num_rows for batch in batches]
    batch_of = np.repeat(np.arange(len(batches)), sizes)
    row_of = np.concatenate([np.arange(size) for size in sizes])
    now = None
    for place in np.argsort(values, kind="stable").tolist():
        if values[place] != now:
            now = values[place]
            for one in maps:  # what was read stays in the files, and need not stay in this process
                one.madvise(mmap.MADV_DONTNEED)
        yield batches[batch_of[place]].slice(int(row_of[place]), 1)


def _mapped(file: str) -> mmap.mmap:
    with open(file, "rb") as opened:
        return mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
