"""The evaluate stage: predictions against the true labels of their instances. Decides that an instance without
predictions counts as one that missed everything, and that a label excluded for an instance is no true label of it:
nothing could have predicted it."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.matchers.exclusion import drop_entries
from xmcspark.matchers.exclusion_spark import with_excluded
from xmcspark.matchers.predictions_arrow import predictions_of_lists
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_profile_files import load_profile, save_profile
from xmcspark.quality.label_statistics import with_all_labels
from xmcspark.quality.metric_parts import (
    added_counts,
    block_label_sums,
    block_metrics,
    counts_table,
    cut_by_block,
    no_label_sums,
    no_row_sums,
    with_bytes,
)
from xmcspark.quality.metric_sums import MetricRow
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.store.placement import partition_keys
from xmcspark.store.session import arrow_batch
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context, Stage

log = logging.getLogger(__name__)

_OWN_ORIGINS = ("logs", "corpus")  # of instances that no augmentation made
_BATCH_RECORDS = 128  # parts of a few 100 kB
_BLOCK_ROWS = 1 << 14  # instances evaluated together
_PIECE_LABELS = 1 << 12  # per part
_BLOCK_LABELS = 1 << 20  # added up by one task
_ANY_LABEL = 2**31 - 1
_COUNTERS = ("instances", "unpredicted", "excluded")
_PARTS = "key int, sums binary, counts binary, " + ", ".join(f"{name} bigint" for name in _COUNTERS)


@dataclass(frozen=True)
class SentProfile:
    """Where tasks find the label profile."""

    folder: SideFolder
    ks: tuple[int, ...]
    keys: tuple[int, ...]  # of each block of labels, for Spark's partitioning
    block_labels: int

    def opened(self) -> LabelProfile:
        return _profile(str(self.folder.path()))


@lru_cache(maxsize=1)
def _profile(folder: str) -> LabelProfile:
    return load_profile(Path(folder))


def run(context: Context) -> None:
    settings = context.config.evaluate
    rows: list[tuple[Any, ...]] = []
    notes: dict[str, Any] = {}
    sent: tuple[LabelProfile, SentProfile] | None = None
    for split in settings.splits:
        instances = context.read("instances").where(F.col("split") == split)
        if instances.isEmpty():
            log.warning("evaluate: there are no instances in split %s: nothing to evaluate", split)
            notes[split] = "there are no instances in this split: nothing to evaluate"
            continue
        sent = sent or _send_profile(context)
        metrics, notes[split] = _evaluated(context, instances, split, *sent)
        rows += [(context.config.method, split, *row) for row in metrics]
    context.write_few("metrics", rows)
    context.note(**notes)


def _evaluated(
    context: Context, instances: DataFrame, split: str, profile: LabelProfile, sent: SentProfile
) -> tuple[list[MetricRow], dict[str, int]]:
    """The metrics of one split, and how many instances they are over."""
    columns = with_excluded(context, instances.select("id", "labels", "relevance"))
    predictions = context.read("predictions").where(F.col("split") == split)
    ranked = predictions.select("id", F.col("labels").alias("predicted"), "scores")
    joined = columns.join(ranked, "id", "left").select(
        "labels", "relevance", "excluded", "predicted", "scores"
    )
    blocks = len(sent.keys)
    with arrow_batch(context.spark, _BATCH_RECORDS):
        parts = joined.mapInArrow(lambda batches: _parts(batches, sent), _PARTS)
        totals = parts.repartition(blocks, "key").mapInArrow(lambda batches: _totals(batches, sent), _PARTS)
        collected = totals.collect()  # one row per block of labels
    counted = {name: sum(row[name] for row in collected) for name in _COUNTERS}
    if counted["unpredicted"]:
        log.warning(
            "evaluate: %d of %d instances of split %s have no predictions and count as misses; run predict again",
            counted["unpredicted"],
            counted["instances"],
            split,
        )
    rows = with_bytes(no_row_sums(profile, sent.ks), *(row.sums for row in collected))
    labels = with_bytes(no_label_sums(profile, sent.ks), *(row.counts for row in collected))
    return rows.to_rows() + with_all_labels(labels, profile).to_rows(), counted


def _send_profile(context: Context) -> tuple[LabelProfile, SentProfile]:
    """Weights and bins of all labels, by their positives in the training set, for the driver and for tasks."""
    settings = context.config.evaluate
    own = (F.col("split") == "train") & F.col("origin").isin(*_OWN_ORIGINS)
    n_instances = context.read("instances").where(own).count()
    counts = _positives(context.read("labels"))
    made = LabelProfile.from_counts(
        counts, n_instances, settings.propensity, A=settings.propensity_a, B=settings.propensity_b
    )
    keys = partition_keys(max(1, math.ceil(made.n_labels / _BLOCK_LABELS)))
    with tempfile.TemporaryDirectory(prefix="xmcspark-profile-") as place:
        save_profile(made, Path(place, "profile"))
        folder = send_made_folder(context, Path(place, "profile"), "profile")
    return made, SentProfile(folder, settings.ks, tuple(keys), _BLOCK_LABELS)


def _positives(labels: DataFrame) -> np.ndarray:
    """Positives of each label id, 0 for ids that are not there: 12 bytes a label pass through the driver."""

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column("id").to_numpy().astype(np.int32).tobytes()
            counts = batch.column("positives").to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
            yield pa.RecordBatch.from_arrays(
                [pa.array([ids], pa.binary()), pa.array([counts], pa.binary())], ["ids", "counts"]
            )

    columns = labels.select("id", F.coalesce("positives", F.lit(0)).cast("bigint").alias("positives"))
    parts = columns.mapInArrow(packed, "ids binary, counts binary").toLocalIterator()
    arrays = [(np.frombuffer(part.ids, np.int32), np.frombuffer(part.counts, np.int64)) for part in parts]
    size = max((int(ids.max()) + 1 for ids, _ in arrays if len(ids)), default=0)
    positives = np.zeros(size, np.int64)
    for ids, counts in arrays:
        positives[ids] = counts
    return positives


def _parts(batches: Iterable[pa.RecordBatch], sent: SentProfile) -> Iterator[pa.RecordBatch]:
    """What the rows of a partition add, block by block; counts of labels cut by where they are added up."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _BLOCK_ROWS:
            yield from _block_parts(pa.Table.from_batches(held), sent)
            held = []
    if sum(b.num_rows for b in held):
        yield from _block_parts(pa.Table.from_batches(held), sent)


def _block_parts(table: pa.Table, sent: SentProfile) -> Iterator[pa.RecordBatch]:
    truth = csr_of_lists(table.column("labels"), table.column("relevance"), _ANY_LABEL, "instances")
    excluded = csr_of_lists(table.column("excluded"), None, _ANY_LABEL, "exclude")
    left = drop_entries(truth, excluded)
    found = predictions_of_lists(table.column("predicted"), table.column("scores"))
    part = block_metrics(found, left, sent.opened(), sent.ks)
    counters = (table.num_rows, table.column("predicted").null_count, truth.nnz - left.nnz)
    yield _part_row(sent.keys[0], part.rows.values.tobytes(), None, counters)
    for block, counts in cut_by_block(counts_table(part.labels), sent.block_labels, _PIECE_LABELS):
        yield _part_row(sent.keys[block], None, counts.tobytes(), (0, 0, 0))


def _part_row(
    key: int, sums: bytes | None, counts: bytes | None, counters: tuple[int, ...]
) -> pa.RecordBatch:
    binaries = [pa.array([sums], pa.binary()), pa.array([counts], pa.binary())]
    numbers = [pa.array([number], pa.int64()) for number in counters]
    return pa.RecordBatch.from_arrays(
        [pa.array([key], pa.int32()), *binaries, *numbers], ["key", "sums", "counts", *_COUNTERS]
    )


def _totals(batches: Iterable[pa.RecordBatch], sent: SentProfile) -> Iterator[pa.RecordBatch]:
    """Everything about a block of labels, added up: all its parts are in this partition."""
    profile, width = sent.opened(), 2 + 2 * len(sent.ks)
    sums = no_row_sums(profile, sent.ks)
    tables = [np.empty((0, width), np.int64)]
    counters = np.zeros(len(_COUNTERS), np.int64)
    for batch in batches:
        counters += [batch.column(name).to_numpy().sum() for name in _COUNTERS]
        sums = with_bytes(sums, *batch.column("sums").drop_null().to_pylist())
        counts = batch.column("counts").drop_null().to_pylist()
        tables += [np.frombuffer(part, np.int64).reshape(-1, width) for part in counts]
        if sum(map(len, tables)) > 2 * sent.block_labels:
            tables = [added_counts(tables)]
    labels = block_label_sums(added_counts(tables), profile, sent.ks)
    yield _part_row(0, sums.values.tobytes(), labels.values.tobytes(), tuple(map(int, counters)))


STAGE = Stage(
    "evaluate",
    1,
    ("method", "evaluate", "predict.exclude_self"),
    ("predictions", "instances", "labels", "exclude"),
    ("metrics",),
    run,
)
