"""PIFA over a cluster (paper 1, eq. 1): each task multiplies the transposed labels of its own rows with their
features, what belongs to one block of labels is routed to one task once, and added there. Sums are exact, so the
partitions and their order leave no trace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.errors import InputError
from xmcspark.labels.instance_cap import InstanceCap
from xmcspark.labels.label_sums import label_sums
from xmcspark.labels.packed_sums import BlockSums, packed_by_block
from xmcspark.matchers.targets import rows_of, select
from xmcspark.sparse.arrow import csr_of_lists, lists_of_csr
from xmcspark.sparse.batches import grouped
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays
from xmcspark.store.direct_tables import ArrowFunction, Rows
from xmcspark.store.side_files import SideFolder

log = logging.getLogger(__name__)

BLOCK_LABELS = 8192  # in a block, unless that makes too many blocks
MOST_BLOCKS = 2048
GROUP_ROWS = 1 << 16  # multiplied at once: more of them share labels, and so are added before they travel
_ROWS_PER_BATCH = 4096
_PARTS_PER_BATCH = 512
CAP_KIND = "instance cap"

_IDS, _SUMS = 0, 1  # kinds of payload
_Part = tuple[int, int, int, bytes | None]
_PARTS = "block int, kind int, cut bigint, payload binary"
_PARTS_ARROW = pa.schema(
    [("block", pa.int32()), ("kind", pa.int32()), ("cut", pa.int64()), ("payload", pa.binary())]
)
LABEL_ROWS = (
    "label int, indices array<int>, values array<float>, "
    "cut_pairs bigint, cut_labels bigint, cut_features bigint"
)
_ROWS_ARROW = pa.schema(
    [
        ("label", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float32())),
        ("cut_pairs", pa.int64()),
        ("cut_labels", pa.int64()),
        ("cut_features", pa.int64()),
    ]
)


@dataclass(frozen=True)
class PifaPlan:
    """What every task needs to know. The same for all: `grid` follows from maxima over all the data."""

    grid: float
    features: int
    label_ids: int  # the largest id + 1
    max_features: int | None
    cap: SideFolder | None  # of an `InstanceCap`
    seed: int
    threads: int
    block_size: int
    group_rows: int


def block_size_for(label_ids: int) -> int:
    """Labels per block: enough blocks to spread, few enough that payloads are worth their overhead."""
    return max(BLOCK_LABELS, -(-label_ids // MOST_BLOCKS))


def routed_sums(features: Rows, labels: DataFrame, plan: PifaPlan, tasks: int) -> DataFrame:
    """Sums of features for each label of `labels` (id), block by block. `features`: of the training instances."""
    parts = features.map(("indices", "values", "labels", "row_key"), partial(_parts, plan), _PARTS)
    wanted = labels.select("id").mapInArrow(partial(_wanted, plan), _PARTS)
    routed = parts.unionByName(wanted).repartition(tasks, F.col("block"))
    return routed.sortWithinPartitions("block")


def label_rows(plan: PifaPlan) -> ArrowFunction:
    """From `routed_sums` to rows of LABEL_ROWS: those of the table, and what was cut, counted on a block's first."""
    return partial(_blocks, plan)


def _parts(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    cap = None
    if plan.cap is not None:
        arrays = load_arrays(plan.cap.path(), CAP_KIND, 1)[1]
        cap = InstanceCap(arrays["labels"], arrays["threshold"])
    for table in grouped(batches, plan.group_rows):
        X = csr_of_lists(table["indices"], table["values"], plan.features, "features")
        Y = csr_of_lists(table["labels"], None, plan.label_ids, "labels")
        _check_range(X, "feature")
        _check_range(Y, "label")
        cut: dict[int, int] = {}
        if cap is not None:
            stays = cap.stays(Y.indices, table["row_key"].to_numpy()[rows_of(Y)], plan.seed)
            dropped = np.bincount(Y.indices[~stays] // plan.block_size)
            cut = {int(block): int(dropped[block]) for block in np.flatnonzero(dropped)}
            Y = select(Y, stays)
        sums = label_sums(X, Y, grid=plan.grid, threads=plan.threads)
        found: list[_Part] = [
            (block, _SUMS, 0, payload) for block, payload in packed_by_block(sums, plan.block_size)
        ]
        found += [(block, _SUMS, count, None) for block, count in cut.items()]
        yield from _part_rows(found)


def _wanted(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ids = batch.column(0).to_numpy()
        of = ids // plan.block_size
        yield from _part_rows([(int(block), _IDS, 0, packed(ids[of == block])) for block in np.unique(of)])


def _blocks(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in zip(*(batch.column(i) for i in range(4)), strict=True))
    for number, block in groupby(rows, key=lambda row: row[0].as_py()):
        ids, cut_pairs = [np.zeros(0, np.int32)], 0
        sums = BlockSums(number, plan.block_size, plan.features, plan.threads)
        for _, kind, cut, payload in block:
            cut_pairs += cut.as_py()
            if kind.as_py() == _IDS:
                ids.append(unpacked(payload.as_buffer())[0])
            elif payload.is_valid:
                sums.add(payload.as_buffer())
        labels = np.sort(np.concatenate(ids))
        Z, cut = sums.features(labels, plan.max_features)
        yield from _label_rows(labels, Z, (cut_pairs, cut.rows, cut.entries))


def _label_rows(labels: np.ndarray, Z: Csr, cut: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(labels), _ROWS_PER_BATCH):
        rows = np.arange(start, min(start + _ROWS_PER_BATCH, len(labels)))
        counts = []
        for count in cut:
            column = np.zeros(len(rows), np.int64)
            column[0] = count if start == 0 else 0
            counts.append(pa.array(column))
        columns = [pa.array(labels[rows], pa.int32()), *lists_of_csr(take_rows(Z, rows)), *counts]
        yield pa.RecordBatch.from_arrays(columns, schema=_ROWS_ARROW)


def _part_rows(parts: list[_Part]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(parts), _PARTS_PER_BATCH):
        columns = zip(*parts[start : start + _PARTS_PER_BATCH], strict=True)
        arrays = [pa.array(c, kind) for c, kind in zip(columns, _PARTS_ARROW.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_PARTS_ARROW)


def _check_range(matrix: Csr, what: str) -> None:
    """Native code trusts its indices; tables may come from anywhere."""
    if matrix.nnz and (matrix.indices.min() < 0 or matrix.indices.max() >= matrix.shape[1]):
        raise InputError(
            f"the table features names {what} {matrix.indices.max()}, but there are only {matrix.shape[1]}: the "
            "tables of this run do not belong together, run it again from corpus on"
        )
