"""Prediction with a model larger than a node's memory. Every task has the cluster levels; the leaves, with the
label matchers below them, are divided into shards. Rows travel, packed, to the shards that hold leaves of their
beam (one shuffle); what these find travels back to one place per row (a second, small one) and is merged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.matchers.members import fused
from xmcspark.matchers.model_spark import SentModel
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.predictions_arrow import lists_of_predictions, predictions_of_lists
from xmcspark.matchers.routed import Pairs, Pieces, SplitModel, score_pairs
from xmcspark.sparse.arrow import csr_of_lists, parts_of_lists
from xmcspark.sparse.csr import Csr
from xmcspark.store.placement import partition_keys
from xmcspark.store.session import slots_of
from xmcspark.text.feature_table import FeatureSpace

BATCH_RECORDS = 256  # rows of a batch in these jobs: rows of X, or payloads
_ROUTED_ROWS = 8192  # searched together before they are packed by shard
_PAYLOAD_ROWS = 512
_SCORED_BYTES = 1 << 24  # of payloads that a shard scores together: many rows for each leaf
_MERGED_ROWS = 1 << 15  # per task of the merge, about
_SHARD_LABELS = 1 << 18  # per shard, about
_ANY_LABEL = 2**31 - 1
_PACKED = "key int, payload binary"


@dataclass(frozen=True)
class Shards:
    """Leaves of all members in a row, cut into shards of equal size; and the partitions that merge rows."""

    first_leaf: tuple[int, ...]  # of each member, and the end
    keys: tuple[int, ...]  # of each shard, for Spark's partitioning
    merge_keys: tuple[int, ...]

    def shard_of(self, leaf: np.ndarray) -> np.ndarray:
        shards: np.ndarray = leaf * len(self.keys) // self.first_leaf[-1]
        return shards


def predict_routed(
    spark: SparkSession, rows: DataFrame, model: SentModel, space: FeatureSpace, n_rows: int
) -> DataFrame:
    """id, split, labels and scores of rows with columns id, split, row_key, those of X, and excluded."""
    shards = _shards(spark, model, n_rows)
    row = F.concat("split", F.lit("/"), "id").alias("row")  # no split has a slash
    sent = rows.select(row, "row_key", *space.columns, "excluded")
    packed = sent.mapInArrow(lambda batches: _route(batches, model, space, shards), _PACKED)
    packed = packed.repartition(len(shards.keys), "key")
    found = packed.mapInArrow(lambda batches: _score(batches, model, space, shards), _PACKED)
    found = found.repartition(len(shards.merge_keys), "key")
    merged = found.mapInArrow(
        lambda batches: _merge(batches, model), "row string, labels array<int>, scores array<float>"
    )
    split = F.substring_index("row", "/", 1)
    return merged.select(
        F.expr("substring(row, locate('/', row) + 1)").alias("id"), split.alias("split"), "labels", "scores"
    )


def _shards(spark: SparkSession, model: SentModel, n_rows: int) -> Shards:
    """How finely to cut: never decides what is predicted."""
    sizes = spark.sparkContext.parallelize([0], 1).map(lambda _: _sizes(model)).first()
    leaves, labels = [leaf for leaf, _ in sizes], sum(label for _, label in sizes)
    shards = max(slots_of(spark), math.ceil(labels / _SHARD_LABELS))
    return Shards(
        tuple(int(first) for first in np.concatenate(([0], np.cumsum(leaves)))),
        tuple(partition_keys(min(shards, sum(leaves)))),
        tuple(partition_keys(max(1, math.ceil(n_rows / (_MERGED_ROWS * _fewer(model.top_k)))))),
    )


def _fewer(top_k: int) -> float:
    """Share of the usual rows that are worked on together where many labels are asked for: same memory."""
    return 10 / max(10, top_k)


def _sizes(model: SentModel) -> list[tuple[int, int]]:
    """(leaves, labels) of each member; asked of a task, which has the model at hand."""
    return [(part.n_leaves, part.n_labels) for part in model.opened_in_parts()]


def _route(
    batches: Iterable[pa.RecordBatch], model: SentModel, space: FeatureSpace, shards: Shards
) -> Iterator[pa.RecordBatch]:
    """Rows, packed for each shard that holds leaves of their beam."""
    for table in _blocks(batches, _ROUTED_ROWS):
        models = model.opened_in_parts()
        row, leaf, above = _beams(space.rows(table), models, model, shards)
        shard = shards.shard_of(leaf)
        order = np.lexsort((row, shard))
        bounds = np.searchsorted(shard[order], np.arange(len(shards.keys) + 1))
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                pairs = order[first:last]
                yield from _payloads(table, row[pairs], leaf[pairs], above[pairs], shards.keys[number])


def _beams(
    X: Csr, models: list[SplitModel], model: SentModel, shards: Shards
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, leaf among all members', path score) of each leaf that beam search opens."""
    rows, leaves, scores = [], [], []
    for part, first in zip(models, shards.first_leaf, strict=False):
        best = part.best_leaves(X, model.beam, model.threads)
        there = best.labels >= 0
        rows.append(np.repeat(np.arange(X.shape[0]), there.sum(axis=1)))
        leaves.append(best.labels[there].astype(np.int64) + first)
        scores.append(best.scores[there])
    return np.concatenate(rows), np.concatenate(leaves), np.concatenate(scores)


def _payloads(
    table: pa.Table, row: np.ndarray, leaf: np.ndarray, above: np.ndarray, key: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one shard with their leaves, a few hundred at a time; `row` is increasing."""
    distinct, starts = np.unique(row, return_index=True)
    ends = np.append(starts[1:], len(row))
    for at in range(0, len(distinct), _PAYLOAD_ROWS):
        some = slice(at, at + _PAYLOAD_ROWS)
        first, last = starts[some][0], ends[some][-1]
        offsets = pa.array(np.append(starts[some], last).astype(np.int32) - np.int32(first))
        packed = table.take(pa.array(distinct[some]))
        packed = packed.append_column("leaves", pa.ListArray.from_arrays(offsets, leaf[first:last]))
        packed = packed.append_column("above", pa.ListArray.from_arrays(offsets, above[first:last]))
        yield _packed_batch(key, packed)


def _score(
    batches: Iterable[pa.RecordBatch], model: SentModel, space: FeatureSpace, shards: Shards
) -> Iterator[pa.RecordBatch]:
    """The best labels of rows among the leaves of this shard, packed by where the row is merged."""
    for table in _unpacked(batches, int(_SCORED_BYTES * _fewer(model.top_k))):
        models = model.opened_in_parts()
        X = space.rows(table)
        excluded = csr_of_lists(table.column("excluded"), None, _ANY_LABEL, "exclude")
        found = score_pairs(models, X, excluded, _pairs(table, shards), model.top_k)
        to = table.column("row_key").to_numpy() % len(shards.merge_keys)
        for member, best in enumerate(found):
            labels, scores = lists_of_predictions(best)
            piece = pa.table(
                {
                    "row": table.column("row"),
                    "member": pa.array(np.full(X.shape[0], member, np.int32)),
                    "labels": labels,
                    "scores": scores,
                }
            )
            for number in np.unique(to):
                chosen = pa.array(np.flatnonzero(to == number))
                yield _packed_batch(shards.merge_keys[number], piece.take(chosen))


def _pairs(table: pa.Table, shards: Shards) -> Pairs:
    indptr, leaf, above = parts_of_lists(table.column("leaves"), table.column("above"), "leaves")
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    first = np.array(shards.first_leaf)
    member = np.searchsorted(first, leaf, side="right") - 1
    return Pairs(row, member.astype(np.int32), (leaf - first[member]).astype(np.int32), above)


def _merge(batches: Iterable[pa.RecordBatch], model: SentModel) -> Iterator[pa.RecordBatch]:
    """The ranking of each row from its pieces, which are all in this partition."""
    tables = list(_unpacked(batches, _SCORED_BYTES))
    if not tables:
        return
    table = pa.concat_tables(tables).combine_chunks()
    numbered = table.column("row").combine_chunks().dictionary_encode()
    rows = numbered.indices.to_numpy().astype(np.int64)
    member = table.column("member").to_numpy()
    ranked = predictions_of_lists(table.column("labels"), table.column("scores"))
    found = []
    for number, part in enumerate(model.opened_in_parts()):
        own = member == number
        pieces = Pieces(rows[own], Predictions(ranked.labels[own], ranked.scores[own]))
        found.append(part.final(pieces, len(numbered.dictionary), model.top_k))
    labels, scores = lists_of_predictions(fused(found, model.fusion))
    whole = pa.table({"row": numbered.dictionary, "labels": labels, "scores": scores})
    yield from whole.to_batches(max_chunksize=4096)


def _packed_batch(key: int, table: pa.Table) -> pa.RecordBatch:
    """One row for the shuffle: a table of rows, as Arrow's own bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    payload = pa.array([sink.getvalue().to_pybytes()], pa.binary())
    return pa.RecordBatch.from_arrays([pa.array([key], pa.int32()), payload], ["key", "payload"])


def _unpacked(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    """The tables of payloads, some megabytes of them together."""
    held: list[pa.Table] = []
    size = 0
    for batch in batches:
        for payload in batch.column("payload"):
            buffer = payload.as_buffer()
            held.append(pa.ipc.open_stream(buffer).read_all())
            size += buffer.size
            if size >= most_bytes:
                yield pa.concat_tables(held).combine_chunks()
                held, size = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _blocks(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.Table]:
    """Batches put together to about as many rows as are worth a search."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= most_rows:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if held and sum(b.num_rows for b in held):
        yield pa.Table.from_batches(held).combine_chunks()
