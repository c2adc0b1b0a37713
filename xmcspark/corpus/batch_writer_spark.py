"""Writes checked records as interactions and quarantine, added up, in one pass over the logs, and counts what was
written. One job and one folder for many days: a job a day would cost more than the days do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.corpus.driver_listing_spark import listed_by_driver
from xmcspark.corpus.ingest_settings import COUNTS
from xmcspark.store.session import slots_of
from xmcspark.store.tables import TABLES

FILE_BYTES = 256 << 20
_KEYS = ("reason", "query", "label_key", "file", "record")


@dataclass
class Written:
    """What a batch holds of one day."""

    rows: int = 0  # of interactions
    counts: int = 0  # impressions, clicks and purchases together
    good: int = 0  # records
    bad: dict[str, int] = field(default_factory=dict)  # records by reason
    example: str = ""  # a file with such records

    @property
    def quarantined(self) -> int:
        return sum(self.bad.values())

    @property
    def records(self) -> int:
        return self.good + self.quarantined

    @property
    def bad_ratio(self) -> float:
        return self.quarantined / self.records if self.records else 0.0

    def add(self, other: Written) -> None:
        self.rows, self.counts, self.good = (
            self.rows + other.rows,
            self.counts + other.counts,
            self.good + other.good,
        )
        self.example = self.example or other.example
        for reason, records in other.bad.items():
            self.bad[reason] = self.bad.get(reason, 0) + records


def write_batch(checked: DataFrame, uri: str, day_bytes: int, all_bytes: int) -> None:
    """Adds records up per day, query and item, and writes them to `kind=.../dt=...` below `uri`. `day_bytes`: of the
    largest day's logs, which decide how many files a day gets."""
    spark = checked.sparkSession
    files = max(1, -(-day_bytes // FILE_BYTES))
    tasks = max(slots_of(spark), -(-all_bytes // FILE_BYTES))
    counts = [F.sum(name).alias(name) for name in COUNTS]
    # Item texts are keys of the first sum and chosen in the second: a sum that also compares texts would have to
    # sort all records. The second sum needs no further shuffle.
    first = checked.groupBy("dt", *_KEYS, "label_text").agg(*counts, F.sum("records").alias("records"))
    file = F.pmod(F.xxhash64("query", "label_key", "file", "record"), F.lit(files)).alias("file_number")
    placed = first.select("*", file).repartition(tasks, "dt", "file_number")
    summed = placed.groupBy("dt", "file_number", *_KEYS).agg(
        *counts, F.max("label_text").alias("label_text"), F.sum("records").alias("records")
    )
    kind = F.when(F.col("reason").isNull(), "interactions").otherwise("quarantine")
    shaped = summed.select(*_KEYS, "label_text", *COUNTS, "records", "dt", kind.alias("kind"))
    shaped = shaped.withColumn("line", F.when(F.col("reason").isNotNull(), F.xxhash64("record")))
    shaped.write.mode("overwrite").partitionBy("kind", "dt").parquet(uri)


def count_batch(spark: SparkSession, uri: str) -> dict[str, Written]:
    """What is in a batch, by day; records without a day under "". Counted in the files: retries and duplicates of
    tasks cannot distort it."""
    columns = {c.name: c.type for name in ("interactions", "quarantine") for c in TABLES[name].columns}
    columns |= {"dt": "string", "records": "bigint", "kind": "string"}
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())
    total: Any = sum((F.col(name) for name in COUNTS), F.lit(0))
    with listed_by_driver(spark):
        batch = spark.read.schema(schema).parquet(uri)
    rows = (
        batch.groupBy("dt", "reason")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum("records").alias("records"),
            F.sum(total.cast("double")).alias("counts"),
            F.min("file").alias("file"),
        )
        .collect()
    )
    found: dict[str, Written] = {}
    for row in sorted(rows, key=lambda row: (-row.records, row.reason or "")):
        day = found.setdefault(row.dt or "", Written())
        if row.reason is None:
            day.rows, day.good, day.counts = row.rows, row.records, int(row.counts)
        else:
            day.bad[row.reason] = row.records
            day.example = day.example or row.file
    return found
