"""The `instances` table from rows whose labels go by key, by a join of all pairs with the ids."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES


def mapped_instances(corpus: KeyedCorpus, rows: DataFrame, ids: DataFrame) -> DataFrame:
    """Rows as a corpus has them, with `ids` (ref, label) of the active labels: others are left out, and rows that
    have none left."""
    pairs = rows.select("split", "id", F.explode(F.arrays_zip("refs", "relevance")).alias("pair"))
    pairs = pairs.select(
        "split", "id", F.col("pair.refs").alias("ref"), F.col("pair.relevance").alias("relevance")
    )
    mapped = (
        pairs.join(ids, "ref")
        .groupBy("split", "id")
        .agg(F.sort_array(F.collect_list(F.struct("label", "relevance"))).alias("pairs"))
    )
    if corpus.text_is_id:
        found = mapped.withColumn("text", F.col("id"))
    else:
        found = mapped.join(rows.select("split", "id", "text"), ["split", "id"])
    return _shaped(found, corpus.origin)


def write_counted(
    context: Context, table: str, frame: DataFrame, counts: list[Column], mode: str = "overwrite"
) -> dict[str, Any]:
    """Counts while writing, in the tasks that write: one that is run twice counts once."""
    counted = Observation()
    context.write(table, frame.observe(counted, *counts).select(*TABLES[table].names), mode=mode)
    return {name: value or 0 for name, value in counted.get.items()}


def instance_counts() -> list[Column]:
    """For the notes, over either of the above."""
    counts = {}
    for split in ("train", "test"):
        here = F.col("split") == split
        counts[f"{split}_max_relevance"] = F.max(F.when(here, F.array_max("relevance")))
        counts[f"{split}_instances"] = F.count_if(here)
        counts[f"{split}_pairs"] = F.sum(F.when(here, F.size("labels")).otherwise(0))
    return [column.alias(name) for name, column in counts.items()]


def _shaped(rows: DataFrame, origin: str) -> DataFrame:
    # Compiled, as sort_array is; functions that take a lambda are interpreted for each element.
    labels, relevance = F.col("pairs")["label"], F.col("pairs")["relevance"]
    return rows.select(
        "id",
        "split",
        F.lit(origin).alias("origin"),
        "text",
        labels.alias("labels"),
        relevance.alias("relevance"),
    ).withColumn("row_hash", F.xxhash64("text", "labels", "relevance"))
