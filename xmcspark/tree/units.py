"""Training work cut into units: what each node costs to train, which nodes are trained together, and how much memory
that takes. Decided from the tree and its counts alone, never from the cluster, so that a unit has the same number
and the same nodes in every run over the same data."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.shape import LANES

_KIND, _VERSION = "training units", 1
# The load model, in nanoseconds of one core: fitted to timings of train_matchers per level on generated data. Only
# ratios matter. Integers, so that sums of loads are the same in any order.
_PER_ENTRY = 54  # of a node's rows: cutting the node's problem out of X
_PER_ENTRY_AND_VECTOR = 26  # the solver's sweeps over one vector of 16 children ...
_PER_DOUBLING = 6  # ... and how much more for each doubling of a node that no longer fits in the cache
_IN_CACHE, _MOST_DOUBLINGS = 14, 10  # log2 of entries; beyond, every weight is a miss already
_PER_ROW_AND_VECTOR = 60
_PER_MATCHER = 2_000


@dataclass(frozen=True)
class NodeCounts:
    """What the load of a node depends on. Nodes are clusters, numbered level by level from the root, as in the
    table tree_nodes; labels are none of them."""

    rows: np.ndarray  # int64: training instances with a label below the node; for the root all
    nnz: np.ndarray  # int64: features of those instances, counted with repeats
    targets: np.ndarray  # int64: pairs of an instance and a child of the node that has one of its labels

    def capped(self, max_rows: int) -> NodeCounts:
        """With at most `max_rows` rows a node, the rest in proportion; 0 is no limit."""
        if max_rows <= 0:
            return self
        rows = np.minimum(self.rows, max_rows)
        share = rows / np.maximum(self.rows, 1)
        return NodeCounts(
            rows, np.ceil(self.nnz * share).astype(np.int64), np.ceil(self.targets * share).astype(np.int64)
        )


@dataclass(frozen=True)
class Unit:
    """Nodes that are trained together: all from `node` down, or `node` alone, or (tree/unit_levels.py) some neighbours
    of one level from `node` on."""

    unit: int  # the sub_tree of the tables, from 0 in order of (level, node)
    node: int  # its top node
    level: int  # of the top node
    whole: bool  # whether everything below the top node belongs to it
    nodes: int
    matchers: int  # children of its nodes
    rows: int  # training instances of the top node: all that the unit needs
    nnz: int  # their features
    targets: int  # pairs of an instance and a child, over all its nodes
    widest: int  # most children of one of its nodes
    load: int  # expected cost, in the unit of all loads


def node_starts(tree: LabelTree) -> np.ndarray:
    """int64[depth + 1]: number of the first node of each level of clusters; the last is the number of nodes."""
    return np.concatenate([[0], np.cumsum(tree.level_sizes[:-1])]).astype(np.int64)


def node_loads(tree: LabelTree, counts: NodeCounts) -> np.ndarray:
    """int64: expected cost of training each node."""
    children = np.concatenate([np.diff(ptr) for ptr in tree.child_ptr])
    vectors = -(-children // LANES)
    log2 = np.frexp(counts.nnz.astype(np.float64))[1].astype(np.int64)
    doublings = np.clip(log2 - _IN_CACHE, 0, _MOST_DOUBLINGS)
    per_entry = _PER_ENTRY + (_PER_ENTRY_AND_VECTOR + _PER_DOUBLING * doublings) * vectors
    return np.asarray(
        counts.nnz * per_entry + counts.rows * vectors * _PER_ROW_AND_VECTOR + children * _PER_MATCHER
    )


def plan_units(tree: LabelTree, counts: NodeCounts, parts: int, max_rows: int = 0) -> list[Unit]:
    """The units of a tree, by number. A unit whose load is above 1 / `parts` of the whole is divided into its top
    node alone and one unit per child, as long as these children are clusters. Loads are those of nodes that train on
    at most `max_rows` rows (0: all); a unit of several nodes needs all rows of its top node nevertheless."""
    starts = node_starts(tree)
    if any(len(array) != starts[-1] for array in (counts.rows, counts.nnz, counts.targets)):
        raise InputError(
            f"the tree has {starts[-1]} nodes, the counts {len(counts.rows)}: they must be equal"
        )
    if parts < 1:
        raise InputError(f"parts is {parts}: at least 1 is needed")
    capped = counts.capped(max_rows)
    loads = node_loads(tree, capped)
    children = np.concatenate([np.diff(ptr) for ptr in tree.child_ptr])
    below = {
        "rows": counts.rows,
        "nnz": counts.nnz,
        "nodes": below_sums(tree, np.ones(starts[-1], np.int64)),
        "matchers": below_sums(tree, children),
        "targets": below_sums(tree, counts.targets),
        "widest": below_sums(tree, children, np.maximum),
        "load": below_sums(tree, loads),
    }
    alone = {
        "rows": capped.rows,
        "nnz": capped.nnz,
        "nodes": np.ones(starts[-1], np.int64),
        "matchers": children,
        "targets": capped.targets,
        "widest": children,
        "load": loads,
    }
    units: list[Unit] = []
    for level, tops, divided in _tops(tree, below["load"], parts):
        for node, split in zip((starts[level] + tops).tolist(), divided.tolist(), strict=True):
            of = alone if split else below
            sizes = {name: int(values[node]) for name, values in of.items()}
            units.append(Unit(len(units), node, level, not split, **sizes))
    return units


def below_sums(tree: LabelTree, values: np.ndarray, how: np.ufunc = np.add) -> np.ndarray:
    """Of each node, the sum (or other `how`) of its own value and those of all nodes below it."""
    starts = node_starts(tree)
    total = np.array(values)
    for level in range(tree.depth - 2, -1, -1):
        here, under = slice(starts[level], starts[level + 1]), slice(starts[level + 1], starts[level + 2])
        total[here] = how(total[here], how.reduceat(total[under], tree.child_ptr[level][:-1]))
    return total


def units_of_nodes(tree: LabelTree, units: list[Unit]) -> np.ndarray:
    """int32: the unit that each node is trained in."""
    starts = node_starts(tree)
    owner = np.full(starts[-1], -1, np.int32)
    owner[[unit.node for unit in units]] = [unit.unit for unit in units]
    for level in range(tree.depth - 1):
        above = owner[starts[level] : starts[level + 1]].repeat(np.diff(tree.child_ptr[level]))
        here = owner[starts[level + 1] : starts[level + 2]]
        here[here < 0] = above[here < 0]
    return owner


def unit_bytes(unit: Unit, n_features: int, depth: int, threads: int = 1, soft_share: float = 0.0) -> int:
    """Memory that training the unit takes at most, by estimate. `depth` is that of the whole tree, `soft_share` of its
    rows have targets below 1 or a weight.

    Its rows, the targets of each level, what the solver needs for the largest node (the top one) and the matchers.
    The interpreter and its libraries come on top.
    """
    rows, nnz = unit.rows, unit.nnz
    levels = depth - unit.level if unit.whole else 1
    vectors = min(2, -(-unit.widest // LANES))  # the solver holds at most two
    features = min(n_features, nnz // 2 + 1)  # with a weight of their own: those of two rows or more
    assembled = 8 * rows + 8 * nnz
    targets = 20 * unit.targets + 8 * rows * levels  # entries of Y, and the rows of each node
    problem = 8 * nnz + 24 * rows
    lanes = 64 * vectors * features + (32 + 64 * vectors) * rows
    lanes += int(soft_share * rows) * (
        32 + 64 * vectors + 2 * 192
    )  # a second example, and costs of their own
    scratch = 4 * n_features
    # About one weight for two entries of each level survives (measured), in pieces and then in one array.
    weights = 8 * min(2 * unit.matchers * features, nnz * levels)
    return int(assembled + targets + weights + threads * (problem + lanes + scratch))


def save_units(units: list[Unit], counts: NodeCounts, folder: str | Path) -> None:
    """Units and the counts they follow from, as a folder of arrays."""
    names = [field.name for field in fields(Unit)]
    columns = zip(*(astuple(unit) for unit in units), strict=True)
    arrays = {f"unit_{name}": np.array(column, np.int64) for name, column in zip(names, columns, strict=True)}
    arrays |= {f"node_{field.name}": getattr(counts, field.name) for field in fields(NodeCounts)}
    save_arrays(Path(folder), _KIND, _VERSION, {"units": len(units)}, arrays)


def load_units(folder: str | Path) -> tuple[list[Unit], NodeCounts]:
    """What `save_units` wrote."""
    _, arrays = load_arrays(Path(folder), _KIND, _VERSION)
    rows = zip(*(arrays[f"unit_{field.name}"].tolist() for field in fields(Unit)), strict=True)
    units = [replace(Unit(*row), whole=bool(row[3])) for row in rows]
    return units, NodeCounts(*(arrays[f"node_{field.name}"] for field in fields(NodeCounts)))


def _tops(tree: LabelTree, load: np.ndarray, parts: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """(level, nodes that head a unit, whether they are alone in it), nodes numbered within their level."""
    starts = node_starts(tree)
    found = []
    tops = np.zeros(1, np.int64)
    for level in range(tree.depth):
        divided = load[starts[level] + tops] * parts > load[0]
        if level == tree.depth - 1:
            divided[:] = False  # its children are labels
        if len(tops):
            found.append((level, tops, divided))
        ptr = tree.child_ptr[level]
        ranges = [np.arange(ptr[top], ptr[top + 1]) for top in tops[divided]]
        tops = np.concatenate([np.zeros(0, np.int64), *ranges])
    return found
