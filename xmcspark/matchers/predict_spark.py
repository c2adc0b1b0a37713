"""The predict stage: the best labels of the instances to evaluate. Decides where the model is while that happens:
mapped into memory on every node (`replicated`), or, if it does not fit, its label matchers each in one task
(`routed`, see routed_spark.py). The answers are the same."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.mach.recovery_memory import labels_that_fit, recovery_bytes
from xmcspark.mach.settings import RECOVERY_KEYS
from xmcspark.matchers.exclusion_spark import with_excluded
from xmcspark.matchers.model_spark import MODEL, SKETCH_FILE, SentModel, model_bytes, send_model
from xmcspark.matchers.predictions_arrow import lists_of_predictions
from xmcspark.matchers.routed_spark import BATCH_RECORDS, predict_routed
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.store.filesystem import joined
from xmcspark.store.session import arrow_batch, slots_of, workers_of_a_node
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
    sent = send_model(context)
    model = _within_memory(context, sent)
    if mode == "routed":
        found = predict_routed(spark, rows, model, space, features.count())
        with arrow_batch(spark, BATCH_RECORDS):
            written = _write(context, found)
    else:
        written = _write(context, _replicated(rows, model, space))
    sketch = [config.mach.transform, config.mach.aggregate] if config.mach.enabled else None
    context.note(
        mode=mode,
        model_bytes=size,
        exclude_self=config.predict.exclude_self,
        scoring={
            "trees": config.ensemble.members,
            "transform": config.predict.transform,
            "sketch": sketch,
            "vectors": config.unidec.enabled,
        },
        asked=sent.settings(),  # what is published is asked as what was evaluated, whatever publish is given
    )
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
        return "replicated"  # a sketch grows with its buckets, not with labels; vectors are mapped, and searched whole
    if predict.mode != "auto":
        return predict.mode
    if size <= _FITS_ANYWHERE and not predict.node_memory_mb:
        return "replicated"
    return "replicated" if size <= _memory_to_use(context) else "routed"


def _memory_to_use(context: Context) -> float:
    """Bytes of a node that prediction may take."""
    predict = context.config.predict
    return predict.memory_share * (predict.node_memory_mb << 20 or _least_memory(context.spark))


def _within_memory(context: Context, model: SentModel) -> SentModel:
    """A sketch's labels are recovered in ranges if the tables of all do not fit: each worker makes its own, and they
    grow with labels times repetitions. The answers are the same."""
    mach = model.members.mach
    if mach is None:
        return model
    header = json.loads(context.fs.read_text(joined(context.folder(MODEL), SKETCH_FILE)))
    labels, buckets, repetitions = (int(header[name]) for name in ("labels", "buckets", "repetitions"))
    mach.check_labels(labels, model.top_k)
    needed = recovery_bytes(mach, labels, buckets, repetitions)
    workers = workers_of_a_node(context.spark)
    if mach.labels_at_once or (
        needed * workers <= _FITS_ANYWHERE and not context.config.predict.node_memory_mb
    ):
        return model
    at_once = labels_that_fit(mach, labels, buckets, repetitions, _memory_to_use(context) / workers)
    if not at_once:
        return model
    log.warning(
        "predict: recovering %s labels at once would take about %s MB in each of %d workers of a node: they are "
        "recovered %s at a time, which is slower; set mach.labels_at_once, or give nodes more memory",
        f"{labels:,}",
        f"{needed >> 20:,}",
        workers,
        f"{at_once:,}",
    )
    context.note(labels_at_once=at_once)
    return replace(model, members=replace(model.members, mach=replace(mach, labels_at_once=at_once)))


def _least_memory(spark: SparkSession) -> int:
    """Bytes of memory of the smallest node that answers."""
    slots = slots_of(spark)
    return int(spark.sparkContext.parallelize(range(slots), slots).map(_memory_here).min())


def _memory_here(_: int) -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


STAGE = Stage(
    "predict",
    2,
    (
        "method",
        "ensemble",
        "evaluate.splits",
        *(
            f"predict.{key}"
            for key in ("transform", "combine", "path_weight", "top_k", "beam", "exclude_self")
        ),
    ),
    ("features", "embeddings", "labels", "exclude", f"{MODEL}/"),
    ("predictions",),
    run,
    reads_of=lambda config: (searched_table(config), "labels", "exclude", f"{MODEL}/"),
    more_keys_of=lambda config: (
        tuple(f"mach.{key}" for key in ("enabled", *RECOVERY_KEYS)) if config.mach.enabled else ()
    ),
)
