"""The Spark session of all jobs, and the settings it needs, each with its reason. What belongs to a machine or a
cluster (memory, cores, dynamic allocation) is in conf/*.conf instead."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

# Settings of the session: the answer must not depend on what a cluster has set here.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # a day is the same day everywhere
    "spark.sql.ansi.enabled": "true",  # Spark 3.5 would overflow and truncate in silence
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",  # a batch of long rows stays in the megabytes
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",  # dates before 1582 are typing errors, not Julian
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # tables have declared schemas
    "spark.sql.files.ignoreMissingFiles": "false",  # a table that lost a file is an error
    "spark.sql.files.ignoreCorruptFiles": "false",
}
# What the driver gathers is small beside its memory, but 100M labels in a tree are more than Spark's limit of 1 GB.
_UNLIMITED = {"spark.driver.maxResultSize": "0"}

_NO_LIMIT = 2**31 - 1  # Spark's way to say that any number of executors may come
_UNKNOWN_SLOTS = 32


def open_session(name: str) -> SparkSession:
    """The session of this process; made if there is none."""
    builder = SparkSession.builder.appName(f"xmcspark {name}")
    for key, value in (_SETTINGS | _UNLIMITED).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def slots_of(spark: SparkSession) -> int:
    """Tasks that can run at the same time: a hint for how finely to cut work, never for what to compute."""
    context = spark.sparkContext
    return slots_from(dict(context.getConf().getAll()), context.master or "", context.defaultParallelism)


def slots_from(settings: Mapping[str, str], master: str, parallelism: int) -> int:
    """With dynamic allocation executors come when there are tasks for them, so what runs now says nothing: counted are
    those that may come. Where nobody knows how many that are, enough tasks to make a cluster grow, and few enough to
    cost a small one little. `parallelism`: what Spark counts now, or was told."""
    threads = int(settings.get("spark.task.cpus") or 1)
    now = max(1, parallelism // threads)
    if master.startswith("local") or settings.get("spark.dynamicAllocation.enabled", "").lower() != "true":
        return now
    if "spark.default.parallelism" in settings:
        return now
    # An executor has one core unless told otherwise, but on a standalone cluster all of its worker's.
    cores = settings.get("spark.executor.cores") or ("" if master.startswith("spark:") else "1")
    executors = settings.get("spark.dynamicAllocation.maxExecutors", "")
    if cores and executors.isdigit() and int(executors) < _NO_LIMIT:
        return max(1, int(executors) * (int(cores) // threads))
    return max(now, _UNKNOWN_SLOTS)


def task_threads(spark: SparkSession) -> int:
    """Threads that one task may use."""
    return int(spark.sparkContext.getConf().get("spark.task.cpus", "1") or 1)


def workers_of_a_node(spark: SparkSession) -> int:
    """Tasks that share the memory of a machine, as far as the session says: those of one executor, or all of them where
    everything runs on this machine."""
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return slots_of(spark)
    return max(1, int(context.getConf().get("spark.executor.cores") or "1") // task_threads(spark))


def threads_of_few(spark: SparkSession, tasks: int) -> int:
    """Threads for each of a few tasks that run alone: all of them may be on one executor, whose other cores idle."""
    context = spark.sparkContext
    cores = context.getConf().get("spark.executor.cores") or "1"
    local = (context.master or "").startswith("local")
    return max(task_threads(spark), (context.defaultParallelism if local else int(cores)) // max(1, tasks))


@contextmanager
def session_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Settings of Spark SQL for the jobs that run inside."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def arrow_batch(spark: SparkSession, records: int) -> AbstractContextManager[None]:
    """Python functions get at most `records` rows at a time in jobs that run inside: for rows that are large."""
    return session_settings(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": str(records)})


def start_logging(level: int = logging.INFO) -> None:
    """Our own log lines on stderr, with the time; those of libraries from WARNING up."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname).1s %(message)s", force=True)
    logging.getLogger("xmcspark").setLevel(level)
