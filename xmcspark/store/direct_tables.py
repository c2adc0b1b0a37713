"""Tables of long lists, read by the Python tasks themselves where they lie on a disk that all tasks see (and written by
them: direct_writing.py). Arrow is several times faster at lists than Spark's Parquet code, and nothing passes through
the JVM. On other filesystems Spark reads and writes; the tables are the same either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from xmcspark.errors import InputError
from xmcspark.store.runs import Run
from xmcspark.store.session import slots_of
from xmcspark.store.stage import Context, read_table
from xmcspark.store.tables import TABLES

Batches = Iterator[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Batches]

_BATCH_ROWS = 4096
GROUP_BYTES = 16 << 20  # of a row group, before it is encoded: what one task reads at least
_TASKS_PER_SLOT = 2


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
    return rows_of_run(context.spark, context.run, tables, split)


def rows_of_run(spark: SparkSession, run: Run, tables: Sequence[str], split: str | None = None) -> Rows:
    """As `rows_of_tables`, of any run."""
    if any(run.fs.local_path(run.table(table)) is None for table in tables):
        frames = [read_table(spark, run, table) for table in tables]
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
        return FrameRows(frame if split is None else frame.where(F.col("split") == split))
    files = [file for table in tables for file in _files_of(run, table, split)]
    (in_paths,) = {TABLES[table].partitioned_by for table in tables}
    types = {field.name: field.type for table in tables for field in to_arrow_schema(TABLES[table].schema)}
    return rows_of_files(spark, files, in_paths, types)


def _files_of(run: Run, table: str, split: str | None) -> list[str]:
    local = run.fs.local_path(run.table(table))
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
        parts = max(1, min(-(-group.total_byte_size // (2 * GROUP_BYTES)), group.num_rows))
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
