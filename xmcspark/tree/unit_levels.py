"""Training units cut by level, for training that goes level by level: with matcher-aware negatives, what a node trains
on follows from the matchers of all levels above it. Units keep their numbers; what is cut is their nodes."""

from __future__ import annotations

import numpy as np

from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import NodeCounts, Unit, node_loads, node_starts


def reached_counts(tree: LabelTree, counts: NodeCounts, beam: int) -> NodeCounts:
    """What nodes are expected to see if each row is also sent to `beam` nodes of each level: their own rows, and of
    the others a node's mean share. Who is sent where is only known once the levels above are trained."""
    starts, total = node_starts(tree), counts.rows[0]
    rows, nnz = counts.rows.copy(), counts.nnz.copy()
    for level in range(1, tree.depth):
        here = slice(starts[level], starts[level + 1])
        nodes = int(starts[level + 1] - starts[level])
        share = min(beam, nodes) / nodes
        rows[here] = np.minimum(rows[here] + np.ceil(total * share).astype(np.int64), total)
        nnz[here] = np.minimum(nnz[here] + np.ceil(counts.nnz[0] * share).astype(np.int64), counts.nnz[0])
    return NodeCounts(rows, nnz, counts.targets)


def units_by_level(tree: LabelTree, units: list[Unit], counts: NodeCounts, max_rows: int) -> list[list[Unit]]:
    """Of each level, the nodes of each unit that lie on it as a unit of their own: `nodes` neighbours from `node` on.
    `counts` are those of each node, `max_rows` as in `plan_units`."""
    capped = counts.capped(max_rows)
    loads, starts = node_loads(tree, capped), node_starts(tree)
    children = np.concatenate([np.diff(ptr) for ptr in tree.child_ptr])
    levels: list[list[Unit]] = [[] for _ in range(tree.depth)]
    for unit in units:
        first = unit.node - int(starts[unit.level])
        last = first + 1
        for level in range(unit.level, tree.depth if unit.whole else unit.level + 1):
            here = slice(starts[level] + first, starts[level] + last)
            seen = capped if last - first == 1 else counts  # of several nodes, all rows are needed
            levels[level].append(
                Unit(
                    unit=unit.unit,
                    node=int(starts[level]) + first,
                    level=level,
                    whole=False,
                    nodes=last - first,
                    matchers=int(children[here].sum()),
                    rows=int(min(seen.rows[here].sum(), counts.rows[0])),
                    nnz=int(min(seen.nnz[here].sum(), counts.nnz[0])),
                    targets=int(capped.targets[here].sum()),
                    widest=int(children[here].max()),
                    load=int(loads[here].sum()),
                )
            )
            ptr = tree.child_ptr[level]
            first, last = int(ptr[first]), int(ptr[last])
    return levels
