"""Ready corpora whose labels are numbered already: the numbers become the ids, so rows are written as they are read.
Two passes over the rows, and one shuffle of packed counts between them: the first looks at everything, and refuses; the
second writes `instances`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.corpus.given_corpus_spark import ORIGIN, GivenCorpus, clean_batches, judge_rows, label_text
from xmcspark.corpus.given_rows_spark import SHAPED, in_batches
from xmcspark.corpus.label_blocks import (
    BlockOwner,
    Blocks,
    LabelFacts,
    RowCounter,
    Sent,
    all_facts,
    sent_labels,
    table_bytes,
    table_of,
)
from xmcspark.corpus.row_checks import check_label_table, check_label_use, notes_of_rows
from xmcspark.corpus.row_cleaning import CleanRows, RowFacts
from xmcspark.sparse.row_hash import instance_hashes
from xmcspark.store.direct_tables import Batches
from xmcspark.store.direct_writing import Measure, write_mapped
from xmcspark.store.placement import partition_keys
from xmcspark.store.progress import tell
from xmcspark.store.session import arrow_batch, slots_of
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES

_SENT = "key int, place int, kind string, payload binary"
_SENT_ARROW = pa.schema(
    [("key", pa.int32()), ("place", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())]
)
_OWNED = "place int, facts string, untrained binary, labels binary"
_FEW_ROWS = 16  # of large payloads in one Arrow batch
_BLOCKS_A_FILE = 16
_JUDGED = ("listed", "nulls", "repeated", "not_utf8", "unknown", "unknown_pairs", "active")
_INSTANCES = TABLES["instances"].names


def write_numbered(context: Context, given: GivenCorpus) -> dict[str, Any]:
    """Writes `labels` and `instances`; InputError, and nothing written, if they are unusable. Returns notes."""
    assert given.numbered is not None
    enough = context.config.corpus.min_label_count
    tell("corpus", "counting labels")
    owned, parts = _owned(context, given, Blocks(given.numbered, _shares(context, given)))
    facts = all_facts(row["facts"] for row in parts)
    _judge(given, facts, enough)
    few = given.numbered <= 1 << 20
    ordered = owned.select("place", "labels").repartition(
        1 if few else -(-len(parts) // _BLOCKS_A_FILE), "place"
    )
    with arrow_batch(context.spark, _FEW_ROWS):
        rows = ordered.sortWithinPartitions("place")
        context.rows["labels"], _ = write_mapped(context, "labels", rows, _unpacked_labels)
    tell("corpus", "writing instances")
    untrained = np.sort(np.concatenate([np.frombuffer(row["untrained"], np.int32) for row in parts]))
    write = partial(_instances, context.config, untrained)
    context.rows["instances"], counts = write_mapped(
        context, "instances", given.rows, write, _MEASURES, columns=SHAPED
    )
    return notes_of_rows(facts.rows) | _notes(facts, counts)


def _shares(context: Context, given: GivenCorpus) -> int:
    return 1 if given.small else 2 * slots_of(context.spark)


def _owned(context: Context, given: GivenCorpus, blocks: Blocks) -> tuple[DataFrame, list[Any]]:
    """What the owner of each place found, written down, and the smaller columns of it."""
    tasks = min(blocks.places, _shares(context, given))
    keys = partition_keys(tasks)
    rows = given.rows.map(SHAPED, partial(_sent_rows, context.config, blocks, keys), _SENT, given.small)
    labels = given.labels.select("ref", "key", label_text(F.col("text"), context.config).alias("text"))
    labels = labels.coalesce(1) if given.small else labels
    by_key = given.unique == "key"
    sent = rows.unionByName(labels.mapInArrow(partial(_sent_labels, blocks, keys, by_key), _SENT))
    own = partial(_own, context.config.corpus.min_label_count)
    with arrow_batch(context.spark, _FEW_ROWS):
        found = sent.repartition(tasks, "key").mapInArrow(own, _OWNED)
        found.write.mode("overwrite").parquet(context.scratch("label-blocks"))
    written = context.spark.read.schema(_OWNED).parquet(context.scratch("label-blocks"))
    return written, written.select("facts", "untrained").collect()


def _judge(given: GivenCorpus, facts: LabelFacts, enough: int) -> None:
    totals = facts.totals
    repeated = any(totals.get(f"repeated_{split}") for split in ("train", "test"))
    judge_rows(given, facts.rows, repeated)
    found: dict[str, Any] = {name: totals.get(name, 0) for name in _JUDGED}
    found |= {"example": facts.examples.get("unknown"), "repeated_example": facts.examples.get("repeated")}
    found["not_utf8_example"] = facts.examples.get("not_utf8")
    if totals.get("repeated_label") and not found["repeated"]:
        by_key = given.labels.groupBy("key").count().where("count > 1")
        row = by_key.agg(F.count(F.lit(1)).alias("n"), F.min("key").alias("example")).collect()[0]
        found |= {"repeated": row["n"], "repeated_example": row["example"]}
    check_label_table(found, given.place)
    check_label_use(found, enough)


def _notes(facts: LabelFacts, counts: dict[str, float]) -> dict[str, Any]:
    totals = facts.totals
    notes: dict[str, Any] = {name: int(value) for name, value in counts.items() if name != "max_relevance"}
    return notes | {
        "max_relevance": counts["max_relevance"],
        "labels_active": totals["active"],
        "labels_new": totals["listed"],
        "labels_retired": 0,
        "labels_without_text": totals["without_text"],
        "highest_label": facts.highest["label"],
        "most_positives": facts.highest["positives"],
    }


# ----------------------------------------------------------------------------------------- in tasks


def _sent_rows(config: Config, blocks: Blocks, keys: list[int], batches: Batches) -> Batches:
    counter = RowCounter(blocks)
    for split, ids, rows in clean_batches(config, batches, counter.facts):
        yield from _batch(counter.add(split, ids, rows), keys)
    yield from _batch(counter.rest(), keys)


def _sent_labels(blocks: Blocks, keys: list[int], by_key: bool, batches: Batches) -> Batches:
    for batch in in_batches(batches):
        yield from _batch(sent_labels(blocks, batch, by_key), keys)


def _batch(sent: Iterable[Sent], keys: list[int]) -> Batches:
    rows = list(sent)
    if rows:
        columns = [
            [keys[row.place % len(keys)] for row in rows],
            [row.place for row in rows],
            [row.kind for row in rows],
            [row.payload for row in rows],
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _SENT_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SENT_ARROW)


def _own(enough: int, batches: Batches) -> Batches:
    owners: dict[int, BlockOwner] = {}
    for batch in batches:
        places, kinds = batch.column("place").to_pylist(), batch.column("kind").to_pylist()
        for at, (place, kind) in enumerate(zip(places, kinds, strict=True)):
            owners.setdefault(place, BlockOwner()).add(kind, batch.column("payload")[at].as_buffer())
    for place in sorted(owners):
        facts, labels, untrained = owners.pop(place).finished(enough)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([place], pa.int32()),
                pa.array([facts.to_json()]),
                pa.array([untrained.tobytes()], pa.binary()),
                pa.array([table_bytes(labels)], pa.binary()),
            ],
            names=["place", "facts", "untrained", "labels"],
        )


def _unpacked_labels(batches: Batches) -> Batches:
    for batch in batches:
        for payload in batch.column("labels"):
            yield from table_of(payload.as_buffer()).to_batches()


def _instances(config: Config, untrained: np.ndarray, batches: Batches) -> Batches:
    facts = {split: RowFacts() for split in ("train", "test")}
    for split, _, rows in clean_batches(config, batches, facts):
        kept = _trained(rows, untrained) if len(untrained) else rows
        offsets = pa.array(kept.indptr.astype(np.int32))
        labels = pa.ListArray.from_arrays(offsets, pa.array(kept.refs.astype(np.int32)))
        relevance = pa.ListArray.from_arrays(offsets, pa.array(kept.relevance))
        columns = {
            "id": kept.ids,
            "split": pa.repeat(pa.scalar(split), len(kept.ids)),
            "origin": pa.repeat(pa.scalar(ORIGIN), len(kept.ids)),
            "text": kept.texts,
            "labels": labels,
            "relevance": relevance,
            "row_hash": pa.array(instance_hashes(kept.texts, labels, relevance)),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in _INSTANCES], names=_INSTANCES)


def _trained(rows: CleanRows, untrained: np.ndarray) -> CleanRows:
    """Without labels that are not trained, and rows that have none left."""
    at = np.minimum(np.searchsorted(untrained, rows.refs), len(untrained) - 1)
    stays = untrained[at] != rows.refs
    sizes = (
        np.add.reduceat(stays.astype(np.int64), rows.indptr[:-1]) if len(rows.ids) else np.empty(0, np.int64)
    )
    has = pa.array(sizes > 0)
    indptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    return CleanRows(
        rows.ids.filter(has), rows.texts.filter(has), indptr, rows.refs[stays], rows.relevance[stays]
    )


def _of_split(split: str, count: str) -> Measure:
    """Rows or pairs of a split."""
    in_spark = {"instances": "1", "pairs": "size(labels)"}[count]

    def in_arrow(batch: pa.RecordBatch) -> float:
        if not batch.num_rows or batch.column("split")[0].as_py() != split:
            return 0
        return batch.num_rows if count == "instances" else len(batch.column("labels").flatten())

    return Measure(f"sum(if(split = '{split}', {in_spark}, 0))", in_arrow)


_MEASURES = {
    f"{split}_{count}": _of_split(split, count)
    for split in ("train", "test")
    for count in ("instances", "pairs")
} | {
    "max_relevance": Measure(
        "max(array_max(relevance))",
        lambda batch: pc.max(batch.column("relevance").flatten()).as_py() or 0.0,
        largest=True,
    )
}
