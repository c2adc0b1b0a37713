"""Counts what nodes above `train.max_rows` choose their rows by: their rows and those of each of their children. Only
such nodes are counted, so that there is little to collect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from xmcspark.matchers.row_selection import RowCap, row_cap
from xmcspark.matchers.targets import lift
from xmcspark.matchers.wave_spark import Forest, by_leaf, groups_of_rows
from xmcspark.sparse.csr import Csr
from xmcspark.store.direct_tables import Rows
from xmcspark.tree.units import node_starts

_COUNTS = "member int, level int, child int, rows bigint"
_COUNTS_ARROW = pa.schema(
    [("member", pa.int32()), ("level", pa.int32()), ("child", pa.int32()), ("rows", pa.int64())]
)


def row_caps(
    features: Rows, forest: Forest, crowded: list[list[int]], max_rows: int
) -> tuple[dict[int, RowCap], ...]:
    """Caps of each member by node. `crowded`: the nodes of each member that have more than `max_rows` rows."""
    if not any(crowded):
        return tuple({} for _ in crowded)
    counted = features.map(("indices", "labels"), partial(_counts, forest, crowded), _COUNTS)
    sums = counted.groupBy("member", "level", "child").agg(F.sum("rows").alias("rows"))
    rows = {(r["member"], r["level"], r["child"]): int(r["rows"]) for r in sums.collect()}
    caps: list[dict[int, RowCap]] = []
    for member, nodes in enumerate(crowded):
        tree = forest.tree(member)
        starts, mine = node_starts(tree), {}
        for node in nodes:
            level = int(np.searchsorted(starts, node, side="right")) - 1
            number = node - int(starts[level])
            children = range(*tree.child_ptr[level][number : number + 2].tolist())
            positives = np.array([rows.get((member, level, child), 0) for child in children], np.int64)
            cap = row_cap(rows.get((member, level - 1, number), 0), positives, max_rows)
            if cap is not None:
                mine[node] = cap
        caps.append(mine)
    return tuple(caps)


def _counts(
    forest: Forest, crowded: list[list[int]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """(level, child): rows with a label below that child of a node on that level; (-1, 0): all rows. Of nodes that are
    crowded themselves and of their children."""
    totals: dict[tuple[int, int], np.ndarray] = {}
    for table in groups_of_rows(batches):
        for member, nodes in enumerate(crowded):
            if nodes:
                for level, found in _of_levels(
                    by_leaf(table["labels"], None, forest.tree(member)), forest, member
                ):
                    totals[member, level] = totals.get((member, level), 0) + found
    for (member, level), found in totals.items():
        children = np.flatnonzero(found)
        if level >= 0:
            children = np.intersect1d(children, _wanted(forest, member, crowded[member], level))
        columns = (
            np.full(len(children), member, np.int32),
            np.full(len(children), level, np.int32),
            children.astype(np.int32),
            found[children],
        )
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_COUNTS_ARROW)


def _of_levels(Y: Csr, forest: Forest, member: int) -> Iterator[tuple[int, np.ndarray]]:
    tree = forest.tree(member)
    for level in reversed(range(tree.depth)):
        yield level, np.bincount(Y.indices, minlength=Y.shape[1])
        Y = lift(Y, tree.child_ptr[level], np.maximum)
    yield -1, np.array([Y.shape[0]])


def _wanted(forest: Forest, member: int, nodes: list[int], level: int) -> np.ndarray:
    """Children of crowded nodes of a level, and those that are crowded nodes."""
    tree = forest.tree(member)
    starts, ptr = node_starts(tree), tree.child_ptr[level]
    here = [node - int(starts[level]) for node in nodes if starts[level] <= node < starts[level + 1]]
    parts = [np.arange(ptr[node], ptr[node + 1]) for node in here]
    if level + 1 < tree.depth:
        below = [
            node - int(starts[level + 1]) for node in nodes if starts[level + 1] <= node < starts[level + 2]
        ]
        parts.append(np.array(below, np.int64))
    return np.unique(np.concatenate([*parts, np.zeros(0, np.int64)]))
