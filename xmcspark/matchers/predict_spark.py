"""The predict stage: the best labels of the instances to evaluate. Decides where the model is while that happens:
mapped into memory on every node (`replicated`), or, if it does not fit, its label matchers each in one task
(`routed`, see routed_spark.py). The answers are the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.mach.settings import RECOVERY_KEYS
from xmcspark.matchers.exclusion_spark import with_excluded
from xmcspark.matchers.model_spark import MODEL, SentModel, model_bytes, send_model
from xmcspark.matchers.predictions_arrow import lists_of_predictions
from xmcspark.matchers.routed_spark import BATCH_RECORDS, predict_routed
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.store.session import arrow_batch, slots_of
from xmcspark.store.stage import Context, Stage
from xmcspark.text.feature_space_spark import feature_space
from xmcspark.text.feature_table import FeatureSpace, searched_table

log = logging.getLogger(__name__)

_FITS_ANYWHERE = 1 << 28  # bytes; no node is asked for its memory below that
_ANY_LABEL = 2**31 - 1


def run(context: Context) -> None:
    config, spark = context.config, context.spark
    size = model_bytes(context)
    mode = _mode(context, size)
    table = searched_table(config)
    space = feature_space(context, table)
    features = context.read(table).where(F.col("split").isin(*config.evaluate.splits))
    rows = with_excluded(context, features.select("id", "split", "row_key", *space.columns))
    model = send_model(context)
    if mode == "routed":
        found = predict_routed(spark, rows, model, space, features.count())
        with arrow_batch(spark, BATCH_RECORDS):
            written = _write(context, found)
    else:
        written = _write(context, _replicated(rows, model, space))
    context.note(mode=mode, model_bytes=size)
    if written == 0:
        splits = ", ".join(config.evaluate.splits)
        context.note(empty=f"there are no instances in split {splits}: nothing to predict")
        log.warning("predict: there are no instances in split %s: the table predictions is empty", splits)


def _replicated(rows: DataFrame, model: SentModel, space: FeatureSpace) -> DataFrame:
    """Each task searches its rows in the whole model."""
    columns = rows.select("id", "split", *space.columns, "excluded")
    return columns.mapInArrow(
        lambda batches: predicted(batches, model, space),
        "id string, split string, labels array<int>, scores array<float>",
    )


def predicted(
    batches: Iterable[pa.RecordBatch], model: SentModel, space: FeatureSpace
) -> Iterator[pa.RecordBatch]:
    """id, split, labels and scores, batch by batch: nothing is kept from one to the next."""
    for batch in batches:
        yield _predicted_batch(batch, model, space)


def _predicted_batch(batch: pa.RecordBatch, model: SentModel, space: FeatureSpace) -> pa.RecordBatch:
    members, X = model.opened(), space.rows(batch)
    excluded = csr_of_lists(batch.column("excluded"), None, _ANY_LABEL, "exclude")
    found = members.predict(X, excluded, beam=model.beam, top_k=model.top_k, threads=model.threads)
    return pa.RecordBatch.from_arrays(
        [batch.column("id"), batch.column("split"), *lists_of_predictions(found)],
        ["id", "split", "labels", "scores"],
    )


def _write(context: Context, found: DataFrame) -> int:
    named = found.withColumn("method", F.lit(context.config.method))
    return context.write("predictions", named.sortWithinPartitions("split", "id"))


def _mode(context: Context, size: int) -> str:
    predict = context.config.predict
    if context.config.mach.enabled or context.config.unidec.enabled:
        return "replicated"  # a sketch's size follows from buckets, not labels; vectors are mapped, and searched whole
    if predict.mode != "auto":
        return predict.mode
    if size <= _FITS_ANYWHERE and not predict.node_memory_mb:
        return "replicated"
    memory = predict.node_memory_mb << 20 or _least_memory(context.spark)
    return "replicated" if size <= predict.memory_share * memory else "routed"


def _least_memory(spark: SparkSession) -> int:
    """Bytes of memory of the smallest node that answers."""
    slots = slots_of(spark)
    return int(spark.sparkContext.parallelize(range(slots), slots).map(_memory_here).min())


def _memory_here(_: int) -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


STAGE = Stage(
    "predict",
    1,
    (
        "method",
        "ensemble",
        "evaluate.splits",
        *(f"predict.{key}" for key in ("transform", "combine", "top_k", "beam", "exclude_self")),
    ),
    ("features", "embeddings", "labels", "exclude", f"{MODEL}/"),
    ("predictions",),
    run,
    reads_of=lambda config: (searched_table(config), "labels", "exclude", f"{MODEL}/"),
    more_keys_of=lambda config: (
        tuple(f"mach.{key}" for key in ("enabled", *RECOVERY_KEYS)) if config.mach.enabled else ()
    ),
)
