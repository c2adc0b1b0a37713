"""Tables of long lists, read and written by the Python tasks themselves where they lie on a disk that all tasks see.
Arrow is several times faster at lists than Spark's Parquet code, and nothing passes through the JVM. On other
filesystems Spark reads and writes; the tables are the same either way."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from xmcspark.errors import InputError
from xmcspark.store.session import slots_of
from xmcspark.store.stage import Context, read_table
from xmcspark.store.tables import TABLES, Table

Batches = Iterator[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Batches]

_BATCH_ROWS = 4096
_GROUP_BYTES = 16 << 20  # of a row group, before it is encoded: what one task reads at least
_TASKS_PER_SLOT = 2
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


class MappedRows(Protocol):
    """Rows that Python functions can be mapped over."""

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        """`function` over some columns of the rows, in some number of tasks, or all `together` in one."""
        ...


class Rows(MappedRows, Protocol):
    """The rows of a table."""

    def count(self) -> int: ...

    def some_texts(self, column: str, most: int) -> list[str | None]:
        """Whichever come first, `most` at most."""
        ...


@dataclass(frozen=True)
class FrameRows:
    """Rows of a DataFrame, read by Spark."""

    frame: DataFrame

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        rows = self.frame.select(*columns)
        return (rows.coalesce(1) if together else rows).mapInArrow(function, schema)

    def count(self) -> int:
        return self.frame.count()

    def some_texts(self, column: str, most: int) -> list[str | None]:
        return [row[0] for row in self.frame.select(column).limit(most).collect()]


@dataclass(frozen=True)
class FileRows:
    """Rows of Parquet files, read by the tasks themselves."""

    spark: SparkSession
    pieces: list[Piece]
    where: _Columns

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        groups = _grouped(self.pieces, 1 if together else _TASKS_PER_SLOT * slots_of(self.spark))
        read = partial(_read, groups, tuple(columns), self.where, function)
        return self.spark.range(0, len(groups), 1, len(groups)).mapInArrow(read, schema)

    def count(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def some_texts(self, column: str, most: int) -> list[str | None]:
        found: list[str | None] = []
        for batch in _batches(self.pieces, (column,), self.where):
            found += batch.column(0)[: most - len(found)].to_pylist()
            if len(found) == most:
                break
        return found


@dataclass(frozen=True)
class SomeRows:
    """Those of some rows that are kept. `keep`: a flag for each row of a batch with the columns `by`."""

    rows: Rows
    by: tuple[str, ...]
    keep: Callable[[pa.RecordBatch], np.ndarray]

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        every = tuple(dict.fromkeys((*columns, *self.by)))
        chosen = partial(_kept, self.keep, tuple(columns), function)
        return self.rows.map(every, chosen, schema, together)

    def count(self) -> int:
        counted = self.map((), _counted, "rows bigint").agg(F.sum("rows").alias("rows")).first()
        return int(counted["rows"] or 0) if counted is not None else 0

    def some_texts(self, column: str, most: int) -> list[str | None]:
        """Of all rows: whoever asks for a few wants to know what they are like."""
        return self.rows.some_texts(column, most)


def _kept(
    keep: Callable[[pa.RecordBatch], np.ndarray],
    columns: tuple[str, ...],
    function: ArrowFunction,
    batches: Batches,
) -> Batches:
    yield from function(batch.filter(pa.array(keep(batch))).select(list(columns)) for batch in batches)


def _counted(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows], pa.int64())], names=["rows"])


def rows_of_table(context: Context, table: str, split: str | None = None) -> Rows:
    """The rows of a table of the run; of one split, if it has splits."""
    return rows_of_tables(context, (table,), split)


def rows_of_tables(context: Context, tables: Sequence[str], split: str | None = None) -> Rows:
    """The rows of tables of the run, one table after the other. Columns that one of them lacks are null there."""
    if any(context.fs.local_path(context.run.table(table)) is None for table in tables):
        frames = [read_table(context.spark, context.run, table) for table in tables]
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
        return FrameRows(frame if split is None else frame.where(F.col("split") == split))
    files = [file for table in tables for file in _files_of(context, table, split)]
    (in_paths,) = {TABLES[table].partitioned_by for table in tables}
    types = {field.name: field.type for table in tables for field in to_arrow_schema(TABLES[table].schema)}
    return rows_of_files(context.spark, files, in_paths, types)


def _files_of(context: Context, table: str, split: str | None) -> list[str]:
    local = context.fs.local_path(context.run.table(table))
    assert local is not None
    only = None if split is None else f"split={split}"
    files = []
    for path in sorted(Path(local).rglob("*.parquet")):
        inside = path.relative_to(local).parts
        if not any(part.startswith(("_", ".")) for part in inside) and (only is None or only in inside):
            files.append(str(path))
    return files


def rows_of_files(
    spark: SparkSession,
    files: Sequence[str],
    in_paths: tuple[str, ...] = (),
    types: dict[str, pa.DataType] | None = None,
) -> FileRows:
    """The rows of Parquet files on a disk that all tasks see. Columns of `types` that a file lacks are null."""
    return FileRows(
        spark, [piece for file in files for piece in _pieces(file)], _Columns(in_paths, types or {})
    )


@dataclass(frozen=True)
class _Columns:
    """Which columns are not in the files themselves."""

    in_paths: tuple[str, ...]
    types: dict[str, pa.DataType]  # of columns that files may lack

    def absent(self, wanted: Sequence[str], stored: Sequence[str]) -> dict[str, pa.DataType]:
        """Of the wanted columns those that a file lacks, with their types."""
        missing = [name for name in wanted if name in self.types and name not in self.in_paths]
        return {name: self.types[name] for name in missing if name not in stored}


@dataclass(frozen=True)
class Piece:
    """Some rows of a row group of a file."""

    path: str
    group: int
    first: int
    rows: int
    bytes: int


def _pieces(path: str) -> list[Piece]:
    """Row groups; a large one, as many writers make them, in several pieces: each is read whole, but that is the
    lesser part of the work."""
    with _named(path):
        metadata = pq.read_metadata(path)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        parts = max(1, min(-(-group.total_byte_size // (2 * _GROUP_BYTES)), group.num_rows))
        ends = [group.num_rows * part // parts for part in range(parts + 1)]
        found += [
            Piece(path, number, first, end - first, group.total_byte_size // parts)
            for first, end in pairwise(ends)
        ]
    return found


def _grouped(pieces: list[Piece], tasks: int) -> list[list[Piece]]:
    """Pieces for each task, of about the same size, the largest tasks first; at least one task."""
    groups: list[list[Piece]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    sizes = [0] * len(groups)
    for piece in sorted(pieces, key=lambda piece: (-piece.bytes, piece.path, piece.group, piece.first)):
        least = sizes.index(min(sizes))
        groups[least].append(piece)
        sizes[least] += piece.bytes
    return groups


def _read(
    groups: list[list[Piece]],
    columns: tuple[str, ...],
    where: _Columns,
    function: ArrowFunction,
    tasks: Batches,
) -> Batches:
    numbers = [number for batch in tasks for number in batch.column(0).to_pylist()]
    yield from function(_batches([piece for number in numbers for piece in groups[number]], columns, where))


def _batches(pieces: list[Piece], columns: tuple[str, ...], where: _Columns) -> Batches:
    for piece in pieces:
        of_path = dict(part.split("=", 1) for part in Path(piece.path).parts if "=" in part)
        with _named(piece.path), pq.ParquetFile(piece.path) as file:
            absent = where.absent(columns, file.schema_arrow.names)
            stored = [name for name in columns if name not in (*where.in_paths, *absent)]
            for batch in _inside(
                file.iter_batches(_BATCH_ROWS, row_groups=[piece.group], columns=stored), piece
            ):
                found = {name: batch.column(name) for name in stored}
                found |= {name: pa.nulls(batch.num_rows, kind) for name, kind in absent.items()}
                found |= {
                    name: pa.repeat(pa.scalar(of_path[name], pa.string()), batch.num_rows)
                    for name in where.in_paths
                    if name in columns
                }
                yield pa.RecordBatch.from_arrays([found[name] for name in columns], names=list(columns))


def _inside(batches: Iterator[pa.RecordBatch], piece: Piece) -> Batches:
    """Of the batches of a row group those of the piece."""
    at = 0
    for batch in batches:
        first, end = max(piece.first - at, 0), min(piece.first + piece.rows - at, batch.num_rows)
        at += batch.num_rows
        if first < end:
            yield batch.slice(first, end - first)
        if at >= piece.first + piece.rows:
            return


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Names the file that is not what it should be. Trouble of the disk or the network stays what it is: try again."""
    try:
        yield
    except (pa.ArrowInvalid, FileNotFoundError, EOFError) as error:
        raise InputError(
            f"{path} cannot be read: gone, damaged or cut off ({error}); write it again (a table of a run: run its "
            "stage again)"
        ) from error


# ---- writing ---------------------------------------------------------------------------------------------


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
    for value in pc.unique(values).to_pylist():
        yield f"{column}={value}", batch.filter(pc.equal(values, value))


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
        if self._bytes >= _GROUP_BYTES:
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
            # Numbers of lists hardly repeat: looking for repeats costs more than it saves.
            plain = [field.name for field in table.schema if not pa.types.is_list(field.type)]
            self._writer = pq.ParquetWriter(
                self._path, table.schema, compression="snappy", use_dictionary=plain
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
