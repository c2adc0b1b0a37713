"""Ready corpora: Parquet tables of instances and labels. Decides what their columns must be, and whether labels go by
number or by key."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from xmcspark.corpus.given_corpus_spark import GivenCorpus
from xmcspark.corpus.given_rows_spark import GivenRows, GivenSplit, parquet_rows
from xmcspark.corpus.input_files_spark import footers_of, found, is_small, read_parquet
from xmcspark.store.stage import Context

_ROW_COLUMNS = {"id": "key", "text": "text", "labels": "keys", "relevance": "numbers?"}


def given_tables(context: Context) -> GivenCorpus:
    """The corpus of `input.train`, `input.test` and `input.labels`."""
    frames, uris = {}, {}
    for split in ("train", "test"):
        if uri := found(context, split):
            frames[split] = read_parquet(context, split, uri, _ROW_COLUMNS)
            uris[split] = uri
    by_number = all(not _has_text_refs(frame) for frame in frames.values())
    labels, place = None, "the labels of input.train and input.test"
    labels_uri = found(context, "labels")
    if labels_uri:
        place = f"input.labels ({labels_uri})"
        labels = read_parquet(context, "labels", labels_uri, {"id": "key", "text": "text"})
        by_number = by_number and not isinstance(labels.schema["id"].dataType, StringType)
    kind = "bigint" if by_number else "string"
    if labels is None:
        refs = [
            frame.select(F.explode(F.col("labels").cast(f"array<{kind}>")).alias("ref"))
            for frame in frames.values()
        ]
        table = reduce(DataFrame.union, refs).where("ref is not null").distinct()
        table = table.withColumn("text", F.lit(None).cast("string"))
    else:
        table = labels.select(F.col("id").cast(kind).alias("ref"), "text")
    table = table.withColumn("key", F.col("ref").cast("string"))
    splits = (
        GivenSplit(split, parquet_rows(context, uris[split], frame), _present(frame), kind)
        for split, frame in frames.items()
    )
    return GivenCorpus(
        rows=GivenRows(tuple(splits)),
        labels=table,
        places={split: f"input.{split} ({uri})" for split, uri in uris.items()},
        place=place,
        numbered=_dense_labels(context, labels_uri, table) if by_number and labels_uri else None,
        unique="ref",
        small=is_small(context.fs, [*uris.values(), *([labels_uri] if labels_uri else [])]),
    )


def _dense_labels(context: Context, uri: str, labels: DataFrame) -> int | None:
    """How many labels there are, if references are 0 and up, each once unless the input is wrong."""
    footers = footers_of(context.fs, uri)
    known = footers.is_dense("id") if footers is not None else None
    if footers is not None and known is not None:
        return footers.rows if known else None
    row = labels.agg(
        F.count(F.lit(1)).alias("n"), F.min("ref").alias("low"), F.max("ref").alias("high")
    ).collect()[0]
    return int(row["n"]) if row["low"] == 0 and row["high"] == row["n"] - 1 else None


def _present(frame: DataFrame) -> tuple[str, ...]:
    return tuple(name for name in _ROW_COLUMNS if name in frame.columns)


def _has_text_refs(frame: DataFrame) -> bool:
    kind = frame.schema["labels"].dataType
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)
