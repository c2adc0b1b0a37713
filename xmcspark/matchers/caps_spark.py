"""Counts what nodes above `train.max_rows` choose their rows by: their rows and those of each of their children. Only
such nodes are counted, so that there is little to collect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from xmcspark.matchers.node_rows import node_rows
from xmcspark.matchers.row_selection import RowCap, row_cap
from xmcspark.matchers.targets import lift
from xmcspark.matchers.wave_spark import Forest, by_leaf, groups_of_rows
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.csr import Csr
from xmcspark.store.direct_tables import Rows
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import node_starts

_COUNTS = "member int, level int, child int, rows bigint"
_COUNTS_ARROW = pa.schema(
    [("member", pa.int32()), ("level", pa.int32()), ("child", pa.int32()), ("rows", pa.int64())]
)
_REACHING = "member int, node int, rows bigint"
_REACHING_ARROW = pa.schema([("member", pa.int32()), ("node", pa.int32()), ("rows", pa.int64())])


def row_caps(
    features: Rows, forest: Forest, crowded: Sequence[Mapping[int, int]], max_rows: int
) -> tuple[dict[int, RowCap], ...]:
    """Caps of each member by node. `crowded`: the nodes of each member that have more than `max_rows` rows, with the
    number of these."""
    if not any(crowded):
        return tuple({} for _ in crowded)
    counted = features.map(("indices", "labels"), partial(_counts, forest, crowded), _COUNTS)
    sums = counted.groupBy("member", "level", "child").agg(F.sum("rows").alias("rows"))
    rows = {(r["member"], r["level"], r["child"]): int(r["rows"]) for r in sums.collect()}
    caps: list[dict[int, RowCap]] = []
    for member, nodes in enumerate(crowded):
        tree = forest.tree(member)
        starts, mine = node_starts(tree), {}
        for node, count in nodes.items():
            level = int(np.searchsorted(starts, node, side="right")) - 1
            number = node - int(starts[level])
            children = range(*tree.child_ptr[level][number : number + 2].tolist())
            positives = np.array([rows.get((member, level, child), 0) for child in children], np.int64)
            cap = row_cap(count, positives, max_rows)
            if cap is not None:
                mine[node] = cap
        caps.append(mine)
    return tuple(caps)


def reached_crowds(
    features: Rows, forest: Forest, members: Sequence[int], level: int, max_rows: int
) -> list[dict[int, int]]:
    """Of each member, the nodes of a level that more than `max_rows` rows belong to or reach, with the number of
    these."""
    columns = (*forest.space.columns, "labels")
    counted = features.map(columns, partial(_reaching, forest, members, level), _REACHING)
    sums = counted.groupBy("member", "node").agg(F.sum("rows").alias("rows")).where(F.col("rows") > max_rows)
    crowds: list[dict[int, int]] = [{} for _ in forest.settings]
    for row in sums.collect():
        crowds[row["member"]][row["node"]] = int(row["rows"])
    return crowds


def _reaching(
    forest: Forest, members: Sequence[int], level: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    totals: dict[int, np.ndarray] = {}
    for table in groups_of_rows(batches):
        X = forest.space.rows(table)
        for member in members:
            tree = forest.tree(member)
            Y = _by_leaf(table, tree)
            for ptr in reversed(tree.child_ptr[level:]):
                Y = lift(Y, ptr, np.maximum)
            reached = forest.reached(X, member)
            assert reached is not None
            either = node_rows([Y, reached], []).indices
            totals[member] = totals.get(member, 0) + np.bincount(either, minlength=Y.shape[1])
    for member, found in totals.items():
        nodes = np.flatnonzero(found)
        columns = (
            np.full(len(nodes), member, np.int32),
            (node_starts(forest.tree(member))[level] + nodes).astype(np.int32),
            found[nodes],
        )
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_REACHING_ARROW)


def _counts(
    forest: Forest, crowded: Sequence[Mapping[int, int]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """(level, child): rows with a label below that child of a crowded node on that level."""
    totals: dict[tuple[int, int], np.ndarray] = {}
    for table in groups_of_rows(batches):
        for member, nodes in enumerate(crowded):
            if nodes:
                for level, found in _of_levels(_by_leaf(table, forest.tree(member)), forest, member):
                    totals[member, level] = totals.get((member, level), 0) + found
    for (member, level), found in totals.items():
        children = np.intersect1d(np.flatnonzero(found), _wanted(forest, member, crowded[member], level))
        columns = (
            np.full(len(children), member, np.int32),
            np.full(len(children), level, np.int32),
            children.astype(np.int32),
            found[children],
        )
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_COUNTS_ARROW)


def _by_leaf(table: pa.Table, tree: LabelTree) -> Csr:
    return by_leaf(csr_of_lists(table["labels"], None, len(tree.position_of_label), "labels"), tree)


def _of_levels(Y: Csr, forest: Forest, member: int) -> Iterator[tuple[int, np.ndarray]]:
    tree = forest.tree(member)
    for level in reversed(range(tree.depth)):
        yield level, np.bincount(Y.indices, minlength=Y.shape[1])
        Y = lift(Y, tree.child_ptr[level], np.maximum)


def _wanted(forest: Forest, member: int, nodes: Iterable[int], level: int) -> np.ndarray:
    """Children of crowded nodes of a level."""
    tree = forest.tree(member)
    starts, ptr = node_starts(tree), tree.child_ptr[level]
    here = [node - int(starts[level]) for node in nodes if starts[level] <= node < starts[level + 1]]
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(ptr[node], ptr[node + 1]) for node in here)])
