"""Label trees with more labels than one task clusters, over a cluster: one task per member clusters the sample, then
all labels go down its splits where they lie. Each round of splits is one pass that counts labels by margin. To
the driver come the cuts that follow, two numbers a split, the sample's planes, and 4 bytes a label for its id and for
its place in each tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.sparse.batches import grouped
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.store.direct_tables import Rows
from xmcspark.store.placement import partition_keys
from xmcspark.store.side_files import SideFolder
from xmcspark.tree.build import sampled_meta_tree
from xmcspark.tree.build_spark import (
    BUILT,
    COLUMNS,
    GROUP_ROWS,
    IDS,
    ROUTED,
    SPLITS,
    TreePlan,
    built_row,
    centre_rows,
    routed_labels,
)
from xmcspark.tree.label_rows import gathered_payloads, label_rows, packed_by_cluster
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.sampled import SampledCut, in_sample
from xmcspark.tree.splits import Cuts, Splits, Walk, cuts_by_split, cuts_of_round

_IDS_KIND = "label ids"
_COUNTS = "member int, split int, bucket int, labels bigint"
_COUNTS_ARROW = pa.schema(
    [("member", pa.int32()), ("split", pa.int32()), ("bucket", pa.int32()), ("labels", pa.int64())]
)
_CUTS = "member int, split int, bucket int, below bigint"
_CUTS_ARROW = pa.schema(
    [("member", pa.int32()), ("split", pa.int32()), ("bucket", pa.int32()), ("below", pa.int64())]
)


def label_ids(label_features: Rows) -> np.ndarray:
    """The ids of all labels, increasing: their places are the numbers that trees are built over."""
    found = label_features.map(("label",), _ids, BUILT).collect()
    return np.sort(np.concatenate([unpacked(row.payload)[0] for row in found]))


def save_ids(ids: np.ndarray, folder: Path) -> None:
    save_arrays(folder, _IDS_KIND, 1, {}, {"ids": ids})


def meta_trees(label_features: Rows, plan: TreePlan, cut: SampledCut, ids: SideFolder) -> DataFrame:
    """The splits of all members and the centres of the nodes above the cut, those of the sample: a task for each
    member. `ids` is the folder of `save_ids`."""
    keys = partition_keys(plan.members)
    sample = label_features.map(COLUMNS, partial(_sample, plan, cut, ids, keys), ROUTED)
    return sample.repartition(plan.members, F.col("key")).mapInArrow(partial(_meta, plan, cut), BUILT)


def collected_splits(built: DataFrame) -> list[Splits]:
    """Of each member."""
    rows = built.where(F.col("kind") == SPLITS).orderBy("member").collect()
    return [Splits(*unpacked(row.payload)) for row in rows]


@dataclass(frozen=True)
class WalkedClusters:
    """Sub-trees by the way of each label down the splits, as far as the cuts lead."""

    ids: SideFolder
    splits: SideFolder  # member m's in folder m
    cuts: tuple[Cuts, ...]  # of each member

    def opened(self, plan: TreePlan) -> _Walked:
        _, arrays = load_arrays(self.ids.path(), _IDS_KIND, 1)
        splits = [Splits.load(self.splits.path() / str(member)) for member in range(plan.members)]
        return _Walked(plan, arrays["ids"], splits, self.cuts)


@dataclass(frozen=True)
class _Walked:
    plan: TreePlan
    ids: np.ndarray
    splits: list[Splits]
    cuts: tuple[Cuts, ...]

    def of(self, labels: np.ndarray, Z: Csr) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.searchsorted(self.ids, labels), [~walk.at for walk in self.walks(labels, Z)]

    def walks(self, labels: np.ndarray, Z: Csr) -> Iterator[Walk]:
        number = np.searchsorted(self.ids, labels)
        for member, (splits, cuts) in enumerate(zip(self.splits, self.cuts, strict=True)):
            yield Walk(splits, Z, number, self.plan.of_member(member).seed).follow(cuts)


def walked_clusters(
    label_features: Rows,
    plan: TreePlan,
    ids: SideFolder,
    splits: list[Splits],
    folder: SideFolder,
    tasks: int,
) -> WalkedClusters:
    """Finds the cuts of all splits, round by round, by so many tasks that add up counts. `folder`: where tasks find
    the splits."""
    clusters = WalkedClusters(ids, folder, tuple(Cuts.none() for _ in splits))
    for number in range(splits[0].rounds):  # members differ in seeds, not in shape
        counted = label_features.map(COLUMNS, partial(_counts, plan, clusters), _COUNTS)
        of_split = counted.repartition(tasks, "member", "split")
        found = of_split.mapInArrow(partial(_cuts, plan, clusters), _CUTS).collect()
        cuts = []
        for member, (each, before) in enumerate(zip(splits, clusters.cuts, strict=True)):
            of_round = {r.split: (r.bucket, r.below % 2**64) for r in found if r.member == member}
            cuts.append(before.and_then(cuts_of_round(each, number, of_round)))
        clusters = WalkedClusters(ids, folder, tuple(cuts))
    return clusters


def _ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield built_row(0, -1, IDS, packed(batch.column("label").to_numpy()))


def _sample(
    plan: TreePlan, cut: SampledCut, ids: SideFolder, keys: list[int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    _, arrays = load_arrays(ids.path(), _IDS_KIND, 1)
    for table in grouped(batches, GROUP_ROWS):
        labels, Z = label_rows(table, plan.features)
        number = np.searchsorted(arrays["ids"], labels)
        for member, key in enumerate(keys):
            chosen = np.flatnonzero(in_sample(number, cut, plan.of_member(member).seed))
            of_member = np.full(len(chosen), member, np.int32)
            payloads = packed_by_cluster(number[chosen], take_rows(Z, chosen), of_member)
            yield from routed_labels((key, part, payload) for part, payload in payloads)


def _meta(plan: TreePlan, cut: SampledCut, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [row for batch in batches for row in zip(batch.column(1), batch.column(2), strict=True)]
    if not rows:
        return
    member = rows[0][0].as_py()
    numbers, Z = gathered_payloads((payload.as_buffer() for _, payload in rows), plan.features)
    meta, splits = sampled_meta_tree(Z, numbers, cut, plan.of_member(member))
    yield built_row(member, -1, SPLITS, packed(*splits.arrays.values()))
    over_rows = LabelTree(meta.child_ptr, np.searchsorted(numbers, meta.labels))
    yield from centre_rows(plan, member, -1, Z, over_rows, 0, np.zeros(cut.level, np.int64))


def _counts(
    plan: TreePlan, clusters: WalkedClusters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Labels by margin, of this task."""
    opened = clusters.opened(plan)
    for table in grouped(batches, GROUP_ROWS):
        for member, walk in enumerate(opened.walks(*label_rows(table, plan.features))):
            split, bucket, labels = walk.counts()
            columns = np.full(len(split), member, np.int32), split, bucket, labels.astype(np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_COUNTS_ARROW)


def _cuts(
    plan: TreePlan, clusters: WalkedClusters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """From all counts of some splits."""
    splits = clusters.opened(plan).splits
    parts = [[column.to_numpy() for column in batch.columns] for batch in batches if batch.num_rows]
    if not parts:
        return
    member, split, bucket, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    for number in np.unique(member):
        own = member == number
        cuts = cuts_by_split(splits[number], split[own], bucket[own], labels[own])
        columns = (
            np.full(len(cuts), number, np.int32),
            np.array(list(cuts), np.int32),
            np.array([bucket for bucket, _ in cuts.values()], np.int32),
            np.array([below for _, below in cuts.values()], np.uint64).view(np.int64),
        )
        yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_CUTS_ARROW)
