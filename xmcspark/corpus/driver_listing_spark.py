"""Lets the driver list a window's folders itself: Spark starts a job of as many tasks for more than 32 paths, which
takes longer than listing them does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_KEY = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_PATHS = 100  # at 50 ms each on an object store: 5 s


@contextmanager
def listed_by_driver(spark: SparkSession) -> Iterator[None]:
    """While a reader is being given its paths."""
    before = spark.conf.get(_KEY)
    spark.conf.set(_KEY, str(max(_PATHS, int(before or 0))))
    try:
        yield
    finally:
        spark.conf.set(_KEY, before or "32")
