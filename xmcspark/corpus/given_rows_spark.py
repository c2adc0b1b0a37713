"""The rows of a ready corpus as tasks see them, whatever files they come from: batches of one split with the columns
that cleaning works on. Rows of Parquet files that all tasks see are read by the tasks themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from xmcspark.corpus.input_files_spark import spread
from xmcspark.corpus.row_cleaning import COLUMNS
from xmcspark.sparse.batches import grouped
from xmcspark.store.direct_tables import ArrowFunction, Batches, FrameRows, Rows, rows_of_files
from xmcspark.store.stage import Context

SHAPED = ("split", *COLUMNS)
_BATCH_ROWS = 4096


@dataclass(frozen=True)
class GivenSplit:
    """The rows of one split."""

    split: str
    rows: Rows  # with columns id, text, labels and perhaps relevance
    columns: tuple[str, ...]  # those of them that are there
    refs: str  # what references are read as: bigint or string

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        shape = partial(_mapped, self.split, self.refs, tuple(columns), function)
        return self.rows.map(self.columns, shape, schema, together)


@dataclass(frozen=True)
class GivenRows:
    """The rows of all splits, as batches of one split with the columns SHAPED."""

    splits: tuple[GivenSplit, ...]

    def map(
        self, columns: Sequence[str], function: ArrowFunction, schema: Any, together: bool = False
    ) -> DataFrame:
        parts = [split.map(columns, function, schema, together) for split in self.splits]
        whole = reduce(DataFrame.unionByName, parts)
        return whole.coalesce(1) if together else whole


def parquet_rows(context: Context, uri: str, frame: DataFrame) -> Rows:
    """Of a table that was found to be as it should."""
    files = [context.fs.local_path(entry.uri) for entry in context.fs.walk(uri) if entry.size]
    if all(files):
        return rows_of_files(context.spark, [file for file in files if file])
    return FrameRows(spread(context, uri, frame))


def _mapped(
    split: str, refs: str, columns: tuple[str, ...], function: ArrowFunction, batches: Batches
) -> Batches:
    return function(_shaped(split, refs, batch).select(columns) for batch in in_batches(batches))


def in_batches(batches: Batches) -> Batches:
    """Of thousands of rows, however few Spark hands over at a time."""
    for table in grouped(batches, _BATCH_ROWS):
        yield from table.combine_chunks().to_batches()


def _shaped(split: str, refs: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    kind = pa.list_(pa.int64() if refs == "bigint" else pa.string())
    there = batch.schema.names
    relevance = pa.list_(pa.float64())
    columns = [
        pa.repeat(pa.scalar(split), batch.num_rows),
        batch.column("id").cast(pa.string()),
        _texts(batch.column("text")),
        batch.column("labels").cast(kind),
        batch.column("relevance").cast(relevance)
        if "relevance" in there
        else pa.nulls(batch.num_rows, relevance),
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(SHAPED))


def _texts(texts: pa.Array) -> pa.Array:
    """As they are, valid or not: a cast would look."""
    return texts if texts.type == pa.string() else texts.cast(pa.binary()).view(pa.string())
