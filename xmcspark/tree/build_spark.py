"""Label trees over a cluster. A tree of moderate size is built by one task; of a larger one, one task builds the
levels down to the build cut and then each sub-tree has a task of its own. The tree is the same either way. Tasks
return packed arrays; the label features never reach the driver."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.errors import InputError
from xmcspark.labels.kept_blocks import kept_rows
from xmcspark.sparse.batches import grouped
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.store.direct_tables import Rows
from xmcspark.store.placement import partition_keys
from xmcspark.store.side_files import SideFolder
from xmcspark.tree.build import build_meta_tree, build_sub_tree, build_tree, cluster_counts, join_trees
from xmcspark.tree.centres import tree_centres
from xmcspark.tree.label_rows import gathered_payloads, label_rows, packed_by_cluster
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.params import TreeParams
from xmcspark.tree.shape import Shape

log = logging.getLogger(__name__)

WHOLE_ENTRIES = 100_000_000  # of Z: up to so many, one task builds the whole tree
_FEWEST_SUB_TREES = 8  # below the build cut, if the tree has a level with so many clusters
_CHUNK_NODES = 4096  # centres in one payload
GROUP_ROWS = 1 << 16  # labels routed at once

TREE, CENTRES, IDS, SPLITS = 0, 1, 2, 3  # kinds of payload
BUILT = "member int, part int, kind int, payload binary"
_BUILT_ARROW = pa.schema(
    [("member", pa.int32()), ("part", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())]
)
ROUTED = "key int, part int, payload binary"
_ROUTED_ARROW = pa.schema([("key", pa.int32()), ("part", pa.int32()), ("payload", pa.binary())])
_CUT_KIND = "build cut"
_PAYLOADS_PER_BATCH = 512
COLUMNS = ("label", "indices", "values")


@dataclass(frozen=True)
class TreePlan:
    """What every task that builds a tree needs to know."""

    params: TreeParams  # of member 0; member i has its seed + i
    members: int
    labels: int
    features: int
    centre_features: int
    grid: float  # of the centres

    def of_member(self, member: int) -> TreeParams:
        return replace(self.params, seed=self.params.seed + member)


@dataclass(frozen=True)
class _Cut:
    """Where the sub-trees begin."""

    level: int
    sizes: tuple[int, ...]  # clusters per level of the whole tree

    @property
    def sub_trees(self) -> int:
        return (1, *self.sizes)[self.level]


def build_cut(plan: TreePlan, entries: int) -> int | None:
    """Level of the clusters whose sub-trees are built apart; None if one task builds all. The tree does not depend
    on it."""
    if entries <= WHOLE_ENTRIES or not plan.params.balanced:
        return None
    sizes = cluster_counts(plan.labels, plan.params)
    wide = [level for level, size in enumerate(sizes[:-1], start=1) if size >= _FEWEST_SUB_TREES]
    return wide[0] if wide else None


def whole_trees(
    label_features: Rows, plan: TreePlan, stop: int | None = None, kept: str | None = None
) -> DataFrame:
    """Trees and centres of all members, each by one task; only down to level `stop` if one is given. `kept`: a folder
    that has the label features as well, quicker to read."""
    columns = COLUMNS if kept is None else ()
    built = [
        label_features.map(columns, partial(_whole_tree, plan, member, stop, kept), BUILT, together=True)
        for member in range(plan.members)
    ]
    return reduce(DataFrame.unionByName, built)


def save_cut(metas: list[LabelTree], ids: np.ndarray, folder: Path) -> None:
    """What sends each label to its sub-tree, for tasks to open."""
    clusters = {}
    for member, meta in enumerate(metas):
        leaf = np.repeat(np.arange(meta.level_sizes[-2], dtype=np.int32), np.diff(meta.child_ptr[-1]))
        clusters[f"cluster_{member}"] = np.empty(len(leaf), np.int32)
        clusters[f"cluster_{member}"][meta.labels] = leaf
    save_arrays(folder, _CUT_KIND, 1, {}, {"ids": ids, **clusters})


class Clusters(Protocol):
    """Says which sub-tree each label belongs to; travels with each task."""

    def opened(self, plan: TreePlan) -> OpenClusters: ...


class OpenClusters(Protocol):
    def of(self, labels: np.ndarray, Z: Csr) -> tuple[np.ndarray, list[np.ndarray]]:
        """(the number of each label among all, its sub-tree in each member)"""
        ...


@dataclass(frozen=True)
class SavedClusters:
    """Those of `save_cut`."""

    folder: SideFolder

    def opened(self, plan: TreePlan) -> OpenClusters:
        return _LookedUp(load_arrays(self.folder.path(), _CUT_KIND, 1)[1], plan.members)


@dataclass(frozen=True)
class _LookedUp:
    arrays: dict[str, np.ndarray]
    members: int

    def of(self, labels: np.ndarray, Z: Csr) -> tuple[np.ndarray, list[np.ndarray]]:
        number = np.searchsorted(
            self.arrays["ids"], labels
        )  # of the row of Z, which is what trees are built over
        return number, [self.arrays[f"cluster_{member}"][number] for member in range(self.members)]


def sub_trees(label_features: Rows, plan: TreePlan, level: int, clusters: Clusters) -> DataFrame:
    """The sub-trees below the build cut, with their centres: one task each."""
    cut = _Cut(level, cluster_counts(plan.labels, plan.params))
    tasks = plan.members * cut.sub_trees
    keys = partition_keys(tasks)
    routed = label_features.map(COLUMNS, partial(_routed, plan, cut, clusters, keys), ROUTED)
    return routed.repartition(tasks, F.col("key")).mapInArrow(partial(_sub_tree, plan, cut), BUILT)


def collected(built: DataFrame) -> tuple[dict[tuple[int, int], LabelTree], np.ndarray | None]:
    """(trees, by member and part; the label of each row of Z). Labels of the trees are numbers of rows of Z."""
    trees, ids = {}, None
    for row in built.where(F.col("kind") != CENTRES).collect():
        arrays = unpacked(row.payload)
        if row.kind == IDS:
            ids = arrays[0]
        else:
            trees[row.member, row.part] = LabelTree(tuple(arrays[:-1]), arrays[-1])
    return trees, ids


def joined_tree(meta: LabelTree, parts: dict[tuple[int, int], LabelTree], member: int) -> LabelTree:
    return join_trees(meta, [parts[member, part] for part in range(meta.level_sizes[-2])])


def _whole_tree(
    plan: TreePlan, member: int, stop: int | None, kept: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    labels, Z = _every_label(plan, batches) if kept is None else kept_rows(Path(kept), plan.features)
    if len(labels) != plan.labels:
        raise InputError(
            f"label_features has {len(labels)} rows for {plan.labels} labels: run the stage index again"
        )
    params = plan.of_member(member)
    tree = build_tree(Z, params) if stop is None else build_meta_tree(Z, stop, params)
    yield built_row(member, -1, TREE, packed(*tree.child_ptr, tree.labels))
    if member == 0:
        yield built_row(member, -1, IDS, packed(labels))
    firsts = np.zeros(tree.depth, np.int64)
    yield from centre_rows(plan, member, -1, Z, tree, 0, firsts if stop is None else firsts[:-1])


def _every_label(plan: TreePlan, batches: Iterator[pa.RecordBatch]) -> tuple[np.ndarray, Csr]:
    table = next(grouped(batches, sys.maxsize), None)
    if table is None:
        raise InputError("label_features has no rows: run the stage index again")
    return label_rows(table, plan.features)


def _routed(
    plan: TreePlan, cut: _Cut, clusters: Clusters, keys: list[int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    opened = clusters.opened(plan)
    for table in grouped(batches, GROUP_ROWS):
        labels, Z = label_rows(table, plan.features)
        number, found = opened.of(labels, Z)
        yield from routed_labels(
            (keys[part], part, payload)
            for member, cluster in enumerate(found)
            for node, payload in packed_by_cluster(number, Z, cluster)
            for part in [member * cut.sub_trees + node]
        )


def routed_labels(payloads: Iterable[tuple[int, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """(key, part, payload) in batches."""
    left = iter(payloads)
    while some := list(islice(left, _PAYLOADS_PER_BATCH)):
        columns = zip(*some, strict=True)
        typed = [pa.array(c, kind) for c, kind in zip(columns, _ROUTED_ARROW.types, strict=True)]
        yield pa.RecordBatch.from_arrays(typed, schema=_ROUTED_ARROW)


def _sub_tree(plan: TreePlan, cut: _Cut, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [row for batch in batches for row in zip(batch.column(1), batch.column(2), strict=True)]
    if not rows:
        return
    member, cluster = divmod(rows[0][0].as_py(), cut.sub_trees)
    numbers, Z = gathered_payloads((payload.as_buffer() for _, payload in rows), plan.features)
    tree = build_sub_tree(Z, numbers, cut.sizes, cut.level, cluster, plan.of_member(member))
    yield built_row(member, cluster, TREE, packed(*tree.child_ptr, tree.labels))
    over_rows = LabelTree(tree.child_ptr, np.searchsorted(numbers, tree.labels))
    firsts = Shape.whole(cut.sizes).under(cut.level, cluster).first
    yield from centre_rows(plan, member, cluster, Z, over_rows, cut.level, firsts)


def centre_rows(
    plan: TreePlan, member: int, part: int, Z: Csr, tree: LabelTree, top: int, firsts: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Centres of the first levels of a (sub-)tree whose root is of level `top`; firsts[t] is the number, within its
    level of the whole tree, of the first cluster of level t here."""
    for t, C in tree_centres(
        Z,
        tree,
        len(firsts),
        grid=plan.grid,
        max_features=plan.centre_features,
        threads=plan.params.threads,
    ):
        for start in range(0, C.shape[0], _CHUNK_NODES):
            stop = min(start + _CHUNK_NODES, C.shape[0])
            a, b = int(C.indptr[start]), int(C.indptr[stop])
            where = np.array([top + t, firsts[t] + start], np.int64)
            indptr = C.indptr[start : stop + 1] - a
            yield built_row(member, part, CENTRES, packed(where, indptr, C.indices[a:b], C.data[a:b]))


def built_row(member: int, part: int, kind: int, payload: bytes) -> pa.RecordBatch:
    numbers = [pa.array([number], pa.int32()) for number in (member, part, kind)]
    return pa.RecordBatch.from_arrays([*numbers, pa.array([payload], pa.binary())], schema=_BUILT_ARROW)
