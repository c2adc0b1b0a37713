"""The `exclude` table: labels never to be predicted for an instance, by label id."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def exclusions(given: DataFrame, ids: DataFrame) -> DataFrame:
    """Of rows (id, refs) and `ids` (ref, label). Labels that have no id cannot be predicted anyway; an id that occurs
    several times excludes all that its rows say."""
    by_text = ids.select(F.col("ref").cast("string"), "label")  # one side may have numbers, the other strings
    pairs = given.select("id", F.explode(F.col("refs").cast("array<string>")).alias("ref")).join(
        by_text, "ref"
    )
    grouped = pairs.groupBy("id").agg(F.array_sort(F.collect_set("label")).alias("labels"))
    return grouped.sortWithinPartitions("id")
