"""Instances as the corpus stage would have left them, and tables read back as arrays, for tests of vectorize."""

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from xmcspark.store.runs import StageRecord
from xmcspark.store.tables import TABLES

SCHEMA = (
    "id string, split string, origin string, text string, "
    "labels array<int>, relevance array<float>, row_hash bigint"
)


def write_instances(context, train, test=(), partitions=2, seed=None):
    """Row i of a split gets labels [i % 5, 5 + i % 7]; `seed` shuffles the rows."""
    rows = [
        (f"{split}-{i}", split, "corpus", text, [i % 5, 5 + i % 7], [1.0, 0.5], i * 31 - 7)
        for split, texts in (("train", train), ("test", test))
        for i, text in enumerate(texts)
    ]
    if seed is not None:
        np.random.default_rng(seed).shuffle(rows)
    frame = context.spark.createDataFrame([tuple(_plain(v) for v in row) for row in rows], SCHEMA)
    frame = frame.repartition(partitions) if seed is not None else frame.coalesce(partitions)
    frame.write.mode("overwrite").partitionBy("split").parquet(context.run.table("instances"))
    without_augmentation(context)


def without_augmentation(context):
    """What the stage augment leaves if nothing is to be added."""
    notes = {"rows": 0, "observed_share": 1.0, "made_share": 1.0}
    empty = context.spark.createDataFrame([], TABLES["augmented"].schema)
    empty.write.mode("overwrite").parquet(context.run.table("augmented"))
    record = StageRecord("augment", "none", 0.0, notes=notes, writes=["cooccurrence", "augmented"])
    context.run.finish(record)


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def vocabulary_rows(context, run=None):
    """The vocabulary in the order of features, as columns."""
    table = pq.read_table(context.fs.local_path((run or context.run).table("vocabulary")))
    return table.sort_by("feature").to_pydict()


def feature_rows(context):
    """{(split, number): row} of the features."""
    frame = context.spark.read.parquet(context.run.table("features"))
    frame = frame.withColumn("key_again", F.xxhash64("id"))
    return {(row.split, int(row.id.partition("-")[2])): row for row in frame.collect()}
