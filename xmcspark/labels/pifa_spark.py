"""PIFA over a cluster (paper 1, eq. 1): each task multiplies the transposed labels of its own rows with their
features; sums by label travel and are added by block of labels (block_sums_spark.py)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from xmcspark.errors import InputError
from xmcspark.labels.block_sums_spark import received, routed, sent_ids, sent_referred, sent_sums
from xmcspark.labels.instance_cap import InstanceCap
from xmcspark.labels.kept_blocks import keep_block
from xmcspark.labels.label_sums import label_sums
from xmcspark.labels.referred_sums import referred_by_block, referred_rows
from xmcspark.matchers.row_store import keep_rows
from xmcspark.matchers.targets import rows_of, select
from xmcspark.sparse.arrow import csr_of_targets, lists_of_csr
from xmcspark.sparse.batches import grouped
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays
from xmcspark.store.direct_tables import ArrowFunction, FrameRows, MappedRows, Rows
from xmcspark.store.exchange import Sender
from xmcspark.store.side_files import SideFolder
from xmcspark.store.stage import Context
from xmcspark.text.feature_table import FeatureSpace

log = logging.getLogger(__name__)

_ROWS_PER_BATCH = 4096
CAP_KIND = "instance cap"
_COLUMNS = ("labels", "targets", "row_key")
LABEL_ROWS = (
    "label int, indices array<int>, values array<float>, "
    "cut_pairs bigint, cut_labels bigint, cut_features bigint, summed bigint"
)
_ROWS_ARROW = pa.schema(
    [
        ("label", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float32())),
        ("cut_pairs", pa.int64()),
        ("cut_labels", pa.int64()),
        ("cut_features", pa.int64()),
        ("summed", pa.int64()),
    ]
)


@dataclass(frozen=True)
class PifaPlan:
    """What every task needs to know. The same for all: `grid` follows from maxima over all the data."""

    grid: float
    space: FeatureSpace
    label_ids: int  # the largest id + 1
    max_features: int | None
    cap: SideFolder | None  # of an `InstanceCap`
    seed: int
    threads: int
    block_size: int
    group_rows: int
    augmented: bool = False  # whether rows that an augmentation made count, as far as they have a label
    kept: str | None = None  # folder for `kept_blocks`, where all tasks see one disk
    store: str | None = None  # folder for rows that are referred to (referred_sums.py), where they do


@contextmanager
def routed_sums(
    context: Context, features: Rows, labels: DataFrame, plan: PifaPlan, tasks: int
) -> Iterator[MappedRows]:
    """Sums of features for each label of `labels` (id), block by block: PART_COLUMNS. `features`: of the training
    instances."""
    sums = Sender(features, (*plan.space.columns, *_COLUMNS), partial(_parts, plan))
    wanted = Sender(FrameRows(labels), ("id",), partial(_wanted, plan))
    with routed(context, [sums, wanted], tasks) as parts:
        yield parts


def label_rows(plan: PifaPlan) -> ArrowFunction:
    """From `routed_sums` to rows of LABEL_ROWS: those of the table, and what was cut, and how many entries were added
    up, counted on a block's first."""
    return partial(_blocks, plan)


def _parts(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    cap = None
    if plan.cap is not None:
        arrays = load_arrays(plan.cap.path(), CAP_KIND, 1)[1]
        cap = InstanceCap(arrays["labels"], arrays["threshold"])
    for table in grouped(batches, plan.group_rows):
        if not plan.augmented and table["targets"].null_count < table.num_rows:
            table = table.filter(pc.is_null(table["targets"]))
        X = plan.space.rows(table).expanded()  # of few rows at a time, and labels' features are sparse
        Y = csr_of_targets(table["labels"], table["targets"], plan.label_ids)
        _check_range(Y)
        cut: dict[int, int] = {}
        if cap is not None:
            stays = cap.stays(Y.indices, table["row_key"].to_numpy()[rows_of(Y)], plan.seed)
            dropped = np.bincount(Y.indices[~stays] // plan.block_size)
            cut = {int(block): int(dropped[block]) for block in np.flatnonzero(dropped)}
            Y = select(Y, stays)
        if plan.store is None:
            sums = label_sums(X, Y, grid=plan.grid, threads=plan.threads)
            yield from sent_sums(sums, plan.block_size, cut)
        else:
            name = keep_rows(Path(plan.store), X)
            yield from sent_referred(referred_by_block(Y, name, plan.block_size), cut)


def _wanted(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from sent_ids(batch.column(0).to_numpy(), plan.block_size)


def _blocks(plan: PifaPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows_of = None if plan.store is None else partial(referred_rows, Path(plan.store))
    how = (plan.block_size, plan.space.size, plan.threads, rows_of, plan.grid)
    for labels, sums, cut_pairs in received(batches, *how):
        Z, cut = sums.features(labels, plan.max_features)
        if plan.kept is not None:
            keep_block(Path(plan.kept), sums.number, labels, Z)
        yield from _label_rows(labels, Z, (cut_pairs, cut.rows, cut.entries, sums.received))


def _label_rows(labels: np.ndarray, Z: Csr, counted: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(labels), _ROWS_PER_BATCH):
        rows = np.arange(start, min(start + _ROWS_PER_BATCH, len(labels)))
        counts = []
        for count in counted:
            column = np.zeros(len(rows), np.int64)
            column[0] = count if start == 0 else 0
            counts.append(pa.array(column))
        columns = [pa.array(labels[rows], pa.int32()), *lists_of_csr(take_rows(Z, rows)), *counts]
        yield pa.RecordBatch.from_arrays(columns, schema=_ROWS_ARROW)


def _check_range(Y: Csr) -> None:
    """Native code trusts its indices; tables may come from anywhere."""
    if Y.nnz and (Y.indices.min() < 0 or Y.indices.max() >= Y.shape[1]):
        raise InputError(
            f"the table features names label {Y.indices.max()}, but there are only {Y.shape[1]}: the tables of this "
            "run do not belong together, run it again from corpus on"
        )
