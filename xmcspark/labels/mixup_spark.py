"""MixUp and Label-MixUp on Spark (paper 5, table 1.6): each training instance mixed with another one, or with the text
of one of its labels. Texts travel in pairs; their features are mixed when they are vectorized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.labels.mixup import label_partners, mixed_targets, mixing_shares, mixup_group, mixup_partners
from xmcspark.sparse.arrow import csr_of_lists, lists_of_csr
from xmcspark.sparse.batches import grouped
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.row_hash import augmented_hashes, text_hashes
from xmcspark.sparse.rows import take_rows
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.placement import partition_keys
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES

_GROUP_ROWS = 1 << 15  # instances that find their partners among each other, about
_NAMES = TABLES["augmented"].names
_ROUTED = "key int, id string, text string, labels array<int>"
_PAIRED = "id string, text string, labels array<int>, partner int"
_ANY_LABEL = 2**31 - 1


@dataclass(frozen=True)
class _Plan:
    origin: str
    alpha: float
    seed: int
    groups: int
    keys: tuple[int, ...]  # of each group, for Spark's partitioning


def write_mixtures(context: Context) -> int:
    """Writes the table `augmented`; its number of rows."""
    settings, rows = context.config.augment, int(context.noted("corpus")["train_instances"])
    groups = max(1, -(-rows // _GROUP_ROWS))
    plan = _Plan(
        settings.mixup, settings.mixup_alpha, context.config.seed, groups, tuple(partition_keys(groups))
    )
    instances = context.read("instances").where("split = 'train'").select("id", "text", "labels")
    if settings.mixup == "mixup":
        routed = instances.mapInArrow(partial(_routed, plan), _ROUTED).repartition(groups, "key")
        written = write_mapped(context, "augmented", routed, partial(_mixed, plan))
    else:
        written = write_mapped(
            context, "augmented", _with_label_texts(context, instances, plan), partial(_with_labels, plan)
        )
    context.rows["augmented"] = written[0]
    return written[0]


def _with_label_texts(context: Context, instances: DataFrame, plan: _Plan) -> DataFrame:
    """Instances that have a label with a text, with one of them."""
    texts = context.read("labels").where("active and length(trim(coalesce(text, ''))) > 0")
    named = texts.select(F.col("id").alias("partner"), F.col("text").alias("partner_text"))
    usable = instances.select("id", F.explode("labels").alias("partner")).join(
        named.select("partner"), "partner"
    )
    lists = usable.groupBy("id").agg(F.sort_array(F.collect_list("partner")).alias("usable"))
    paired = instances.join(lists, "id").mapInArrow(partial(_partnered, plan), _PAIRED)
    return paired.join(named, "partner")


def _routed(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        group = mixup_group(text_hashes(batch.column("id")), plan.groups, plan.seed)
        keys = pa.array(np.array(plan.keys, np.int32)[group])
        columns = [keys, *(batch.column(name) for name in ("id", "text", "labels"))]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "id", "text", "labels"])


def _mixed(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The instances of whole groups, each with its partner."""
    for table in grouped(batches, 2**62):
        for key in np.unique(table["key"].to_numpy()):
            rows = table.filter(pa.array(table["key"].to_numpy() == key)).combine_chunks()
            row_keys = text_hashes(rows["id"].combine_chunks())
            partners = mixup_partners(row_keys, plan.seed)
            Y = csr_of_lists(rows["labels"], None, _ANY_LABEL, "labels")
            texts = rows["text"].combine_chunks()
            yield _mixtures(plan, rows, Y, texts.take(pa.array(partners)), take_rows(Y, partners))


def _partnered(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        usable = csr_of_lists(batch.column("usable"), None, _ANY_LABEL, "labels")
        partners = label_partners(usable, text_hashes(batch.column("id")), plan.seed)
        columns = [*(batch.column(name) for name in ("id", "text", "labels")), pa.array(partners)]
        yield pa.RecordBatch.from_arrays(columns, names=["id", "text", "labels", "partner"])


def _with_labels(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            Y = csr_of_lists(batch.column("labels"), None, _ANY_LABEL, "labels")
            partner = batch.column("partner").to_numpy().astype(np.int32)
            own = Csr(
                np.arange(len(partner) + 1, dtype=np.int64),
                partner,
                np.ones(len(partner), np.float32),
                (len(partner), _ANY_LABEL),
            )
            yield _mixtures(plan, batch, Y, batch.column("partner_text"), own)


def _mixtures(
    plan: _Plan, rows: pa.Table | pa.RecordBatch, Y: Csr, partner_texts: pa.Array, Y2: Csr
) -> pa.RecordBatch:
    size = rows.num_rows
    ids, texts = (_whole(rows[name]) for name in ("id", "text"))
    shares = mixing_shares(text_hashes(ids), plan.alpha, plan.seed)
    labels, targets = lists_of_csr(mixed_targets(Y, Y2, shares))
    columns = {
        "id": pa.array([f"{plan.origin}:{name}" for name in ids.to_pylist()], pa.string()),
        "split": pa.array(["train"] * size, pa.string()),
        "origin": pa.array([plan.origin] * size, pa.string()),
        "label": pa.nulls(size, pa.int32()),
        "text": texts,
        "labels": labels,
        "targets": targets,
        "relevance": targets,
        "partner_text": partner_texts,
        "mix": pa.array(shares),
        "row_hash": pa.array(augmented_hashes(texts, labels, targets, targets, partner_texts)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _NAMES], names=_NAMES)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
