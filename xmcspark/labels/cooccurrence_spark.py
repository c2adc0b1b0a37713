"""Label co-occurrence over a cluster: each task multiplies Yᵀ with Y of its own rows, sums travel and are added by
block of labels (block_sums_spark.py). Rows with very many labels count with some of them, and rows are multiplied in
portions of bounded work, so that no instance kills a task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.errors import InputError
from xmcspark.labels.block_sums_spark import (
    PART_COLUMNS,
    PARTS_PER_BATCH,
    block_size_for,
    received,
    routed,
    sent_sums,
)
from xmcspark.labels.cooccurrence import (
    Neighbours,
    capped_labels,
    cooccurrence_parts,
    graph_on_disk,
    neighbours_of,
)
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.sparse.rows import stacked_rows
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.store.direct_tables import rows_of_table
from xmcspark.store.direct_writing import Measure, entries_of, write_mapped
from xmcspark.store.exchange import Sender
from xmcspark.store.session import arrow_batch, slots_of, task_threads
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context

_PAIRS = 1 << 22  # of labels, multiplied at once: 50 MB
_ROWS, _ENTRIES = 1 << 16, 1 << 20  # gathered before that
_BATCH_ROWS = 4096
_ROW_COLUMNS = ("label", "neighbours", "counts")
_COUNTS_KIND = "counts of labels"  # as saved
_NEIGHBOUR_ROWS = (
    "label int, neighbours array<int>, counts array<bigint>, probability array<float>, "
    "cut_pairs bigint, cut_neighbours bigint"
)


def _summed(column: str) -> Measure:
    return Measure(f"sum({column})", lambda batch: pc.sum(batch.column(column)).as_py() or 0)


_MEASURES = {
    "entries": entries_of("neighbours"),
    "labels_of_instances_cut": _summed("cut_pairs"),
    "neighbours_cut": _summed("cut_neighbours"),
}


@dataclass(frozen=True)
class CooccurrencePlan:
    """What every task needs to know."""

    label_ids: int  # the largest id + 1
    max_labels: int
    max_neighbours: int
    seed: int
    threads: int
    block_size: int


def write_cooccurrence(context: Context, label_ids: int) -> dict[str, int]:
    """Writes the table; its entries, and what the caps left out."""
    settings, spark = context.config.augment, context.spark
    block = block_size_for(label_ids)
    plan = CooccurrencePlan(
        label_ids,
        settings.max_labels,
        settings.max_neighbours,
        context.config.seed,
        task_threads(spark),
        block,
    )
    tasks = min(-(-label_ids // block), 3 * slots_of(spark))
    instances = rows_of_table(context, "instances", "train")
    sender = Sender(instances, ("id", "labels"), partial(_parts, plan))
    with arrow_batch(spark, PARTS_PER_BATCH), routed(context, [sender], tasks) as parts:
        context.rows["cooccurrence"], found = write_mapped(
            context,
            "cooccurrence",
            parts,
            partial(_neighbours, plan),
            _MEASURES,
            columns=PART_COLUMNS,
            schema=_NEIGHBOUR_ROWS,
        )
    return {name: int(value) for name, value in found.items()}


def sent_own_counts(context: Context, label_ids: int) -> SideFolder:
    """G_jj of each label id, 0 where there is none, for `own_counts` in tasks: 12 bytes a label pass through the
    driver."""
    own = np.zeros(label_ids, np.int64)
    for labels, _, counts in _sizes(context):
        own[labels] = counts
    with tempfile.TemporaryDirectory(prefix="xmcspark-counts-") as work:
        save_arrays(Path(work), _COUNTS_KIND, 1, {}, {"own": own})
        return send_made_folder(context, Path(work), "counts")


def own_counts(folder: SideFolder) -> np.ndarray:
    """What was sent, mapped into memory."""
    return load_arrays(folder.path(), _COUNTS_KIND, 1)[1]["own"]


def sent_graph(context: Context) -> SideFolder:
    """The table as a graph that tasks map into memory. It is put together on the driver's disk; in its memory are 20
    bytes a label, and the rows of one task."""
    packed_rows = rows_of_table(context, "cooccurrence").map(_ROW_COLUMNS, _packed_rows, "payload binary")
    with tempfile.TemporaryDirectory(prefix="xmcspark-graph-") as work:
        graph = graph_on_disk(_sizes(context), Path(work))
        for row in packed_rows.toLocalIterator():
            graph.fill(Neighbours(*unpacked(row.payload)))
        graph.save(Path(work, "graph"))
        return send_made_folder(context, Path(work, "graph"), "graph")


def _sizes(context: Context) -> Iterator[list[np.ndarray]]:
    """(labels, their entries, their own counts) of the table, some rows at a time."""
    rows = rows_of_table(context, "cooccurrence").map(_ROW_COLUMNS, _packed_sizes, "payload binary")
    return (unpacked(row.payload) for row in rows.toLocalIterator())


def _packed_sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        part = neighbours_of_lists(*(batch.column(name) for name in _ROW_COLUMNS))
        yield _payload(packed(part.labels, np.diff(part.indptr), part.own))


def _packed_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        part = neighbours_of_lists(*(batch.column(name) for name in _ROW_COLUMNS))
        yield _payload(packed(part.labels, part.indptr, part.neighbours, part.counts, part.own))


def _payload(found: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], names=["payload"])


def neighbours_of_lists(labels: pa.Array, neighbours: pa.Array, counts: pa.Array) -> Neighbours:
    """Rows of the table; a label without any has itself."""
    alone = pc.is_null(neighbours).to_numpy(zero_copy_only=False)
    ids = labels.to_numpy(zero_copy_only=False).astype(np.int32)
    found = csr_of_lists(neighbours, None, 2**31 - 1, "cooccurrence")
    number = counts.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    at = found.indptr[:-1][alone]
    together, number = np.insert(found.indices, at, ids[alone]), np.insert(number, at, 1)
    indptr = np.concatenate([[0], np.cumsum(np.diff(found.indptr) + alone, dtype=np.int64)])
    own = number[together == np.repeat(ids, np.diff(indptr))]
    return Neighbours(ids, indptr, together, number, own)


def _parts(plan: CooccurrencePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for Y, cut in _groups(plan, batches):
        left_out = {int(Y.indices[0]) // plan.block_size: cut} if cut else None
        for sums in cooccurrence_parts(Y, plan.threads, _PAIRS):
            yield from sent_sums(sums, plan.block_size, left_out)
            left_out = None


def _groups(plan: CooccurrencePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Csr, int]]:
    """(labels of some rows, how many were left out); rows that are multiplied together share pairs."""
    held: list[Csr] = []
    rows = entries = cut = 0
    for batch in batches:
        Y = csr_of_lists(batch.column("labels"), None, plan.label_ids, "labels")
        if Y.indices.max(initial=-1) >= plan.label_ids:  # native code trusts its indices
            raise InputError(
                f"the table instances names label {Y.indices.max()}, but labels ends at {plan.label_ids - 1}: the "
                "tables of this run do not belong together, run it again from corpus on"
            )
        Y, _, left_out = capped_labels(Y, text_hashes(batch.column("id")), plan.max_labels, plan.seed)
        held.append(Y)
        rows, entries, cut = rows + Y.shape[0], entries + Y.nnz, cut + left_out
        if rows >= _ROWS or entries >= _ENTRIES:
            yield stacked_rows(held), cut
            held, rows, entries, cut = [], 0, 0, 0
    if held:
        yield stacked_rows(held), cut


def _neighbours(plan: CooccurrencePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, sums, cut_pairs in received(batches, plan.block_size, plan.label_ids, plan.threads):
        found, cut = neighbours_of(sums.total(), plan.max_neighbours)
        yield from _rows(found, cut_pairs, cut.entries)


def _rows(found: Neighbours, cut_pairs: int, cut_neighbours: int) -> Iterator[pa.RecordBatch]:
    """Rows of _NEIGHBOUR_ROWS; what was cut on the first."""
    for start in range(0, len(found.labels), _BATCH_ROWS):
        part = found.take(np.arange(start, min(start + _BATCH_ROWS, len(found.labels))))
        offsets = pa.array(part.indptr.astype(np.int32))
        lists = [
            pa.ListArray.from_arrays(offsets, pa.array(values))
            for values in (part.neighbours, part.counts, part.probability)
        ]
        cuts = np.zeros((2, len(part.labels)), np.int64)
        cuts[:, :1] = [[cut_pairs], [cut_neighbours]] if start == 0 else 0
        columns = [pa.array(part.labels), *lists, *(pa.array(cut) for cut in cuts)]
        yield pa.RecordBatch.from_arrays(
            columns, names=[name.split()[0] for name in _NEIGHBOUR_ROWS.split(", ")]
        )
