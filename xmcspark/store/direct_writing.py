"""Writing of tables of long lists by the Python tasks themselves, where all tasks see one disk; Spark's writer does it
elsewhere. Decides what becomes part of a table: files of the tasks that counted, moved into place by the driver."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from xmcspark.store.direct_tables import GROUP_BYTES, ArrowFunction, Batches, FrameRows, MappedRows
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES, Table

_WRITTEN = "file string, rows bigint, measures array<double>"
_WRITTEN_ARROW = pa.schema(
    [("file", pa.string()), ("rows", pa.int64()), ("measures", pa.list_(pa.float64()))]
)


@dataclass(frozen=True)
class Measure:
    """Something counted over the rows of a table while it is written: in Spark's words and in Arrow's."""

    in_spark: str  # SQL
    in_arrow: Callable[[pa.RecordBatch], float]
    largest: bool = False  # the largest of all, not the sum


def entries_of(column: str) -> Measure:
    """How many entries the lists of a column have in all."""
    return Measure(f"sum(cast(size({column}) as bigint))", lambda batch: len(batch.column(column).flatten()))


def empty_rows_of(column: str) -> Measure:
    """How many of its lists are empty."""
    return Measure(
        f"count_if(size({column}) = 0)",
        lambda batch: pc.sum(pc.equal(pc.list_value_length(batch.column(column)), 0)).as_py() or 0,
    )


# ---- reading ---------------------------------------------------------------------------------------------


def write_mapped(
    context: Context,
    table: str,
    rows: DataFrame | MappedRows,
    function: ArrowFunction,
    measures: dict[str, Measure] | None = None,
    *,
    columns: Sequence[str] = (),
    folder: str = "",
    schema: Any = None,
) -> tuple[int, dict[str, float]]:
    """Writes what `function` makes of `rows`, or of some `columns` of them, as a table, or into a folder of it; the
    number of rows, and what was measured. `schema` is the function's if it has more columns than the table, for
    measures. Files of a task that ran twice, or whose job failed, never become part of the table."""
    declared, measures = TABLES[table], measures or {}
    if isinstance(rows, DataFrame):
        columns, rows = columns or rows.columns, FrameRows(rows)
    uri = context.run.table(table) + (f"/{folder}" if folder else "")
    local = context.fs.local_path(uri)
    if local is None:
        return _written_by_spark(
            declared, rows.map(columns, function, schema or declared.schema), uri, measures
        )
    target = Path(local)
    if target.exists():
        shutil.rmtree(target)
    writing = target / f"_writing-{uuid.uuid4().hex}"
    writing.mkdir(parents=True)
    write = partial(_write, str(writing), declared, function, [m.in_arrow for m in measures.values()])
    done = rows.map(columns, write, _WRITTEN).collect()
    for row in done:
        if row.file:
            (target / row.file).parent.mkdir(exist_ok=True)
            os.rename(writing / row.file, target / row.file)
    shutil.rmtree(writing, ignore_errors=True)  # an attempt that lost may still be writing there
    (target / "_SUCCESS").touch()
    return sum(row.rows for row in done), _totals(measures, [row.measures for row in done])


def _write(
    folder: str,
    table: Table,
    function: ArrowFunction,
    measures: list[Callable[[pa.RecordBatch], float]],
    batches: Batches,
) -> Batches:
    """Writes the rows of one task, a file for each value of the columns that are in paths; yields what was written."""
    task = TaskContext.get()
    assert task is not None
    name = f"part-{task.partitionId():05d}-{uuid.uuid4().hex}.parquet"
    files: dict[str, _File] = {}
    for batch in function(batches):
        for place, part in _by_path(batch, table):
            if place not in files:
                files[place] = _File(Path(folder) / place / name, table)
            files[place].add(part, [measure(part) for measure in measures])
    done = [(f"{place}/{name}" if place else name, *file.close()) for place, file in files.items()]
    if done:
        columns = zip(*done, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _WRITTEN_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_WRITTEN_ARROW)


def _by_path(batch: pa.RecordBatch, table: Table) -> Iterator[tuple[str, pa.RecordBatch]]:
    if not table.partitioned_by:
        yield "", batch
        return
    (column,) = table.partitioned_by
    values = batch.column(column)
    found = pc.unique(values).to_pylist()
    for value in found:
        part = batch if len(found) == 1 else batch.filter(pc.equal(values, value))
        yield f"{column}={value}", part


class _File:
    """A Parquet file that grows; row groups of about the same size, so that several tasks can read it."""

    def __init__(self, path: Path, table: Table) -> None:
        path.parent.mkdir(exist_ok=True)
        self._columns = [name for name in table.names if name not in table.partitioned_by]
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0
        self._measured: list[list[float]] = []

    def add(self, batch: pa.RecordBatch, measured: list[float]) -> None:
        self._held.append(batch.select(self._columns))
        self._bytes += batch.nbytes
        self._rows += batch.num_rows
        self._measured.append(measured)
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> tuple[int, list[float]]:
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._rows, [value for values in self._measured for value in values]

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            # Numbers of lists hardly repeat, and are read several times: packing them costs more than it saves.
            lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
            plain = [name for name in table.schema.names if name not in lists]
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression={f"{name}.list.element": "none" for name in lists}
                | dict.fromkeys(plain, "snappy"),
                use_dictionary=plain,
            )
        self._writer.write_table(table)
        self._held, self._bytes = [], 0


def _totals(measures: dict[str, Measure], measured: list[list[float]]) -> dict[str, float]:
    """Each task left all values of all its batches, one batch after the other."""
    totals = {}
    for at, (name, measure) in enumerate(measures.items()):
        values = [v for values in measured for v in values[at :: len(measures)]]
        totals[name] = max(values, default=0.0) if measure.largest else sum(values)
    return totals


def _written_by_spark(
    table: Table, rows: DataFrame, uri: str, measures: dict[str, Measure]
) -> tuple[int, dict[str, float]]:
    seen = Observation()
    counts = [F.count(F.lit(1)).alias("rows of the table")]
    counts += [F.expr(measure.in_spark).alias(name) for name, measure in measures.items()]
    writer = rows.observe(seen, *counts).select(*table.names).write.mode("overwrite")
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    writer.parquet(uri)
    found = seen.get
    return int(found["rows of the table"]), {name: float(found[name] or 0) for name in measures}
