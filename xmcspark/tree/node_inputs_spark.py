"""One pass over the training rows for what each node of every tree learns from: partitions add up their own rows,
and their sums are added by block of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.batches import grouped
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.store.direct_tables import Rows
from xmcspark.store.session import arrow_batch
from xmcspark.store.side_files import SideFolder
from xmcspark.tree.node_inputs import NodeInputs, add_rows
from xmcspark.tree.paths import LabelPaths

BLOCK_NODES = 1 << 12  # 128 kB of sums
_GROUP_ROWS = 1 << 16  # rows added at once
_SUMS = "member int, block int, payload binary"
_SUMS_ARROW = pa.schema([("member", pa.int32()), ("block", pa.int32()), ("payload", pa.binary())])
_BLOCKS_PER_TASK = 256
_RECORDS_PER_BATCH = 1024  # of such blocks, or rows


def node_inputs(
    spark: SparkSession, features: Rows, trees: SideFolder, nodes: list[int], label_ids: int, width: int = 0
) -> list[NodeInputs]:
    """Of each member's tree, from training rows with labels, row_key, row_hash, indices. `trees` holds the
    `LabelPaths` of member m in folder m; `nodes` are their numbers of nodes. `width`: values of an embedding, which
    every row has besides its features."""
    add_up = partial(_sums_of_rows, trees, len(nodes), label_ids, width, BLOCK_NODES)
    sums = features.map(("labels", "row_key", "row_hash", "indices"), add_up, _SUMS)
    blocks = sum(-(-count // BLOCK_NODES) for count in nodes)
    tasks = -(-blocks // _BLOCKS_PER_TASK)
    total = sums.repartition(tasks, F.col("block")).mapInArrow(_added, _SUMS)
    found = [NodeInputs.zeros(count) for count in nodes]
    with arrow_batch(spark, _RECORDS_PER_BATCH):
        sums_by_block = total.collect()
    for row in sums_by_block:
        found[row.member].add(row.block * BLOCK_NODES, unpacked(row.payload))
    return found


def _sums_of_rows(
    trees: SideFolder,
    members: int,
    label_ids: int,
    width: int,
    block: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    paths: list[LabelPaths] = []
    found: list[NodeInputs] = []
    for table in grouped(batches, _GROUP_ROWS):
        if not paths:  # not for empty partitions
            paths = [LabelPaths.load(trees.path() / str(member)) for member in range(members)]
            found = [NodeInputs.zeros(path.nodes) for path in paths]
        Y = csr_of_lists(table["labels"], None, label_ids, "labels")
        key, row_hash = (table[name].to_numpy() for name in ("row_key", "row_hash"))
        size = pc.list_value_length(table["indices"]).to_numpy() + width
        for path, inputs in zip(paths, found, strict=True):
            add_rows(inputs, path, Y.indptr, Y.indices, key, row_hash, size.astype(np.int64))
    for member, inputs in enumerate(found):
        for start in range(0, len(inputs.rows), block):
            arrays = (array[start : start + block] for array in inputs.arrays)
            yield _row(member, start // block, packed(*arrays))


def _added(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found: dict[tuple[int, int], NodeInputs] = {}
    for batch in batches:
        for member, block, payload in zip(*(batch.column(i) for i in range(3)), strict=True):
            arrays = unpacked(payload.as_buffer())
            place = (member.as_py(), block.as_py())
            if place not in found:
                found[place] = NodeInputs.zeros(len(arrays[0]))
            found[place].add(0, arrays)
    for (member, block), inputs in found.items():
        yield _row(member, block, packed(*inputs.arrays))


def _row(member: int, block: int, payload: bytes) -> pa.RecordBatch:
    numbers = [pa.array([number], pa.int32()) for number in (member, block)]
    return pa.RecordBatch.from_arrays([*numbers, pa.array([payload], pa.binary())], schema=_SUMS_ARROW)
