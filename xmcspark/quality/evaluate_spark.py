"""The evaluate stage: predictions against the true labels of their instances. Decides that an instance without
predictions counts as one that missed everything, and that a label excluded for an instance is no true label of it:
nothing could have predicted it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.labels.positives_spark import label_positives
from xmcspark.matchers.exclusion import drop_entries
from xmcspark.matchers.exclusion_spark import with_excluded
from xmcspark.matchers.predictions_arrow import predictions_of_lists
from xmcspark.quality.error_tables import instance_errors
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.measure_spark import (
    ANY_LABEL,
    MEASURED_COLUMNS,
    Measured,
    Measuring,
    measure,
    measuring_rows,
    send_profile,
    unpacked_errors,
)
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.store.direct_tables import ArrowFunction
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.stage import Context, Stage
from xmcspark.store.tables import TABLES

log = logging.getLogger(__name__)

ERROR_TABLES = ("instance_errors", "label_errors")
_OWN_ORIGINS = ("logs", "corpus")  # of instances that no augmentation made


def run(context: Context, method: str | None = None) -> None:
    """`method`: what the predictions are of, where that is not one method of the configuration."""
    settings, method = context.config.evaluate, method or context.config.method
    rows: list[tuple[Any, ...]] = []
    notes: dict[str, Any] = {}
    sent: tuple[LabelProfile, Measuring] | None = None
    for split in settings.splits:
        instances = context.read("instances").where(F.col("split") == split)
        count = instances.count()
        if not count:
            log.warning("evaluate: there are no instances in split %s: nothing to evaluate", split)
            notes[split] = "there are no instances in this split: nothing to evaluate"
            continue
        if sent is None:
            profile = training_profile(context, label_positives(context.read("labels")))
            sent = profile, send_profile(context, profile, settings.ks, settings.bootstrap)
        measured = _evaluated(context, (split, method), count, *sent)
        _warn_of_unpredicted(measured.counted, split)
        rows += [(method, split, *row) for row in measured.rows]
        notes[split] = measured.counted
    context.write_few("metrics", rows)
    for table in ERROR_TABLES if settings.errors and not rows else ():
        context.write_few(table, [])
    context.note(**notes)


def _evaluated(
    context: Context, named: tuple[str, str], count: int, profile: LabelProfile, sent: Measuring
) -> Measured:
    """The metrics of one split; its errors are written."""
    split = named[0]
    sent = measuring_rows(sent, context.spark, profile.n_labels, count)
    frame = predicted_instances(context, split)
    if not context.config.evaluate.errors:
        return measure(frame, profile, sent)
    frame = frame.persist()  # it is read twice
    try:
        _write_errors(
            context, "instance_errors", frame, partial(_instance_errors, max(sent.ks), named), split
        )
        write = partial(
            _write_errors, context, "label_errors", function=partial(_label_errors, named), split=split
        )
        return measure(frame, profile, replace(sent, errors=True), write)
    finally:
        frame.unpersist()


def predicted_instances(context: Context, split: str) -> DataFrame:
    """The instances of a split with their predictions, if they have any: MEASURED_COLUMNS."""
    instances = context.read("instances").where(F.col("split") == split)
    columns = with_excluded(context, instances.select("id", "labels", "relevance"))
    predictions = context.read("predictions").where(F.col("split") == split)
    ranked = predictions.select("id", F.col("labels").alias("predicted"), "scores")
    return columns.join(ranked, "id", "left").select(*MEASURED_COLUMNS)


def training_profile(context: Context, positives: np.ndarray) -> LabelProfile:
    """Weights and bins of all labels, by their positives in the training set."""
    settings = context.config.evaluate
    own = (F.col("split") == "train") & F.col("origin").isin(*_OWN_ORIGINS)
    n_instances = context.read("instances").where(own).count()
    return LabelProfile.from_counts(
        positives, n_instances, settings.propensity, A=settings.propensity_a, B=settings.propensity_b
    )


def _warn_of_unpredicted(counted: dict[str, int], split: str) -> None:
    if counted["unpredicted"]:
        log.warning(
            "evaluate: %d of %d instances of split %s have no predictions and count as misses; run predict again",
            counted["unpredicted"],
            counted["instances"],
            split,
        )


def _instance_errors(
    k: int, named: tuple[str, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        truth = csr_of_lists(batch.column("labels"), batch.column("relevance"), ANY_LABEL, "instances")
        left = drop_entries(truth, csr_of_lists(batch.column("excluded"), None, ANY_LABEL, "exclude"))
        found = predictions_of_lists(batch.column("predicted"), batch.column("scores"))
        yield _table_rows(
            "instance_errors", {"id": batch.column("id"), **instance_errors(found, left, k)}, named
        )


def _label_errors(named: tuple[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in unpacked_errors(batches):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield _table_rows("label_errors", columns, named)


def _table_rows(table: str, columns: dict[str, pa.Array], named: tuple[str, str]) -> pa.RecordBatch:
    """In the order that the table declares, with split and method."""
    n = len(next(iter(columns.values())))
    columns |= {name: pa.repeat(value, n) for name, value in zip(("split", "method"), named, strict=True)}
    names = TABLES[table].names
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names)


def _write_errors(context: Context, table: str, rows: DataFrame, function: ArrowFunction, split: str) -> None:
    if table not in context.rows:
        context.fs.delete(context.run.table(table))  # it may hold other splits
    written, _ = write_mapped(context, table, rows, function, folder=f"of={split}")
    context.rows[table] = context.rows.get(table, 0) + written


def _written(config: Config) -> tuple[str, ...]:
    return ("metrics", *ERROR_TABLES) if config.evaluate.errors else ("metrics",)


STAGE = Stage(
    "evaluate",
    2,
    ("method", "evaluate", "predict.exclude_self"),
    ("predictions", "instances", "labels", "exclude"),
    ("metrics", *ERROR_TABLES),
    run,
    writes_of=_written,
)
