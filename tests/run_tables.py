"""Tables of a run as a stage before the one under test would have written them."""

from __future__ import annotations

from typing import Any


def write_table(context: Any, table: str, rows: list[tuple], partitions: int = 1) -> None:
    """Rows in the declared columns, in as many files; with fewer rows than files some are empty."""
    from xmcspark.store.tables import TABLES

    declared = TABLES[table]
    frame = context.spark.createDataFrame(
        context.spark.sparkContext.parallelize(rows, partitions), declared.schema
    )
    writer = frame.write.mode("overwrite")
    if declared.partitioned_by:
        writer = writer.partitionBy(*declared.partitioned_by)
    writer.parquet(context.run.table(table))
