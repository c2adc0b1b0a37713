"""Trains one unit of a tree by itself: the nodes below (and with) its top node, or that node alone, or some of the
children of a node that is too heavy for one task. Bit for bit the matchers that training the whole tree would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xmcspark.matchers.model import Matchers
from xmcspark.matchers.node_rows import capped_rows
from xmcspark.matchers.packed_rows import TrainingRows
from xmcspark.matchers.row_selection import RowCap
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import lift, select
from xmcspark.matchers.trainer import ALL_INPUTS, Place, Trainer, in_one_node, node_seeds
from xmcspark.sparse.csr import Csr
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import Unit, node_starts

GROUP = 32  # children that the solver takes at once (native/train_node.h): a node is cut between such groups


@dataclass(frozen=True)
class TrainedLevel:
    """Matchers of a unit's nodes on one level, a row for each of `children`."""

    level: int
    nodes: np.ndarray  # int64: the node of each child, numbered on its level
    children: np.ndarray  # int64: numbered on the level below, increasing
    matchers: Matchers
    positives: np.ndarray  # int64: training rows with a label below the child


@dataclass(frozen=True)
class TrainedUnit:
    levels: tuple[TrainedLevel, ...]
    unfinished: int  # matchers that stopped at max_sweeps


def train_unit(
    rows: TrainingRows,
    tree: LabelTree,
    unit: Unit,
    settings: TrainSettings,
    *,
    caps: Mapping[int, RowCap] | None = None,
    piece: tuple[int, int] = (0, 1),
    given: Matchers | None = None,
    inputs: str = ALL_INPUTS,
    threads: int = 1,
) -> TrainedUnit:
    """The matchers of a unit from its own rows, in the order of training, as a `Router` deals them out.

    `caps`: of the nodes (numbered as in tree_nodes) that take only a part of their rows; None tells them from these
    rows, which must then be all. `piece` (i, n): only every n-th group of the children of a unit of one node, from
    group i on. With matcher-aware negatives a unit is nodes of one level, and `rows.reached` says which rows the levels
    above send to each. `given`: the matchers of the root's children, taken as they are; `inputs` as `Trainer` has
    them."""
    if given is not None and unit.level == 0 and unit.nodes == 1:
        return _root_as_given(rows.Y, tree, given, caps, piece)
    if unit.level > 0:
        given = None
    of_level = rows.reached is not None and piece[1] == 1
    part, place = _level_tree(tree, unit) if of_level else unit_tree(tree, unit)
    own = None if caps is None else _own_caps(tree, part, place, caps)
    if piece[1] > 1:
        return _train_piece(rows, part, place, settings, own, piece, inputs, threads)
    trainer = _trainer(rows, part, place, settings, own, inputs, threads, given)
    R = None if rows.relevance is None else _costs(rows)
    if of_level:
        true = lift(rows.Y, part.child_ptr[1], np.maximum)
        matchers = trainer.train_level(1, rows.Y, R, true, rows.reached)
        return TrainedUnit((_trained_level(part, place, 1, matchers, rows.Y, own),), trainer.unfinished)
    model = trainer.train(rows.Y, R)
    levels, Y = [], rows.Y
    for t in reversed(range(part.depth)):
        levels.append(_trained_level(part, place, t, model.matchers[t], Y, own))
        Y = lift(Y, part.child_ptr[t], np.maximum)
    return TrainedUnit(tuple(reversed(levels)), trainer.unfinished)


def unit_tree(tree: LabelTree, unit: Unit) -> tuple[LabelTree, Place]:
    """The unit as a tree of its own, its leaves numbered from 0, and where it lies in the whole one."""
    first = unit.node - int(node_starts(tree)[unit.level])
    last, starts, pointers = first + 1, [], []
    for ptr in tree.child_ptr[unit.level : None if unit.whole else unit.level + 1]:
        starts.append(first)
        pointers.append(ptr[first : last + 1] - ptr[first])
        first, last = int(ptr[first]), int(ptr[last])
    starts.append(first)
    leaves = np.arange(last - first, dtype=np.int32)
    return LabelTree(tuple(pointers), leaves), Place(unit.level, tuple(starts))


def _level_tree(tree: LabelTree, unit: Unit) -> tuple[LabelTree, Place]:
    """The nodes of a unit of one level as the children of a root that is not trained, and where they lie."""
    first = unit.node - int(node_starts(tree)[unit.level])
    ptr = tree.child_ptr[unit.level][first : first + unit.nodes + 1]
    leaves = np.arange(ptr[-1] - ptr[0], dtype=np.int32)
    part = LabelTree((np.array([0, unit.nodes]), ptr - ptr[0]), leaves)
    return part, Place(unit.level - 1, (0, first, int(ptr[0])))


def _trained_level(
    part: LabelTree,
    place: Place,
    t: int,
    matchers: Matchers,
    Y: Csr,
    caps: Mapping[tuple[int, int], RowCap] | None,
) -> TrainedLevel:
    """Level t of a part. Y: targets of its children."""
    ptr = part.child_ptr[t]
    nodes = place.first[t] + np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    children = place.first[t + 1] + np.arange(ptr[-1])
    return TrainedLevel(place.level + t, nodes, children, matchers, _positives(Y, part, t, caps))


def _trainer(
    rows: TrainingRows,
    part: LabelTree,
    place: Place,
    settings: TrainSettings,
    caps: Mapping[tuple[int, int], RowCap] | None,
    inputs: str,
    threads: int,
    given: Matchers | None = None,
) -> Trainer:
    return Trainer(
        rows.X,
        part,
        settings,
        rows.keys,
        place=place,
        totals=rows.totals,
        row_weights=rows.weights,
        caps=caps,
        given=() if given is None else (given,),
        inputs=inputs,
        threads=threads,
    )


def _root_as_given(
    Y: Csr,
    tree: LabelTree,
    given: Matchers,
    caps: Mapping[int, RowCap] | None,
    piece: tuple[int, int],
) -> TrainedUnit:
    """The root alone, of which nothing is trained; all of it comes with the first piece."""
    children = int(tree.child_ptr[0][-1])
    if piece[0]:
        return TrainedUnit((), 0)
    root = LabelTree.root_only(children)
    cap = (caps or {}).get(0)
    positives = _positives(Y, root, 0, None if cap is None else {(0, 0): cap})
    level = TrainedLevel(0, np.zeros(children, np.int64), np.arange(children), given, positives)
    return TrainedUnit((level,), 0)


def _own_caps(
    tree: LabelTree, part: LabelTree, place: Place, caps: Mapping[int, RowCap]
) -> dict[tuple[int, int], RowCap]:
    """Those of the part's nodes, by level and number in it."""
    starts = node_starts(tree)
    own = {}
    for t, size in enumerate(part.level_sizes[:-1]):
        if place.level + t < 0:  # above the tree's root
            continue
        first = int(starts[place.level + t]) + place.first[t]
        own.update({(t, node - first): cap for node, cap in caps.items() if first <= node < first + size})
    return own


def _train_piece(
    rows: TrainingRows,
    part: LabelTree,
    place: Place,
    settings: TrainSettings,
    caps: Mapping[tuple[int, int], RowCap] | None,
    piece: tuple[int, int],
    inputs: str,
    threads: int,
) -> TrainedUnit:
    """Groups are those that the solver would make of all children, so that a piece is solved as in the whole."""
    positives = _positives(rows.Y, part, 0, caps)
    rows = rows.take(_rows_of_node(rows, part, place, settings, caps))
    children = rows.Y.shape[1]
    order = np.argsort(-np.bincount(rows.Y.indices, minlength=children), kind="stable")
    mine = np.sort(order[(np.arange(children) // GROUP) % piece[1] == piece[0]])
    if not len(mine):
        return TrainedUnit((), 0)
    trainer = _trainer(rows, LabelTree.root_only(len(mine)), place, settings, {}, inputs, threads)
    R = None if rows.relevance is None else _columns(_costs(rows), mine)
    matchers = trainer.train_level(0, _columns(rows.Y, mine), R, in_one_node(len(rows)), rows.reached)
    nodes = np.full(len(mine), place.first[0], np.int64)
    level = TrainedLevel(place.level, nodes, place.first[1] + mine, matchers, positives[mine])
    return TrainedUnit((level,), trainer.unfinished)


def _rows_of_node(
    rows: TrainingRows,
    part: LabelTree,
    place: Place,
    settings: TrainSettings,
    caps: Mapping[tuple[int, int], RowCap] | None,
) -> np.ndarray:
    """The rows that a unit's only node takes."""
    every = np.arange(len(rows), dtype=np.int32)
    all_rows = Csr(np.array([0, len(rows)]), every, np.ones(len(rows), np.float32), (1, len(rows)))
    seeds = node_seeds(settings.seed, place.level, 1, place.first[0])
    known = None if caps is None else {node: cap for (_, node), cap in caps.items()}
    ptr = part.child_ptr[0]
    return capped_rows(all_rows, rows.Y, ptr, seeds, rows.keys, settings.max_rows, known).indices


def _positives(Y: Csr, part: LabelTree, t: int, caps: Mapping[tuple[int, int], RowCap] | None) -> np.ndarray:
    """Of each child of level t, counted before rows were left out."""
    positives = np.bincount(Y.indices, minlength=Y.shape[1])
    for (level, node), cap in (caps or {}).items():
        if level == t:
            positives[part.child_ptr[t][node] : part.child_ptr[t][node + 1]] = cap.positives
    return positives


def _costs(rows: TrainingRows) -> Csr:
    assert rows.relevance is not None
    return Csr(rows.Y.indptr, rows.Y.indices, rows.relevance, rows.Y.shape)


def _columns(Y: Csr, columns: np.ndarray) -> Csr:
    """The given columns, which are increasing, numbered from 0."""
    number = np.full(Y.shape[1], -1, np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    kept = select(Y, number[Y.indices] >= 0)
    return Csr(kept.indptr, number[kept.indices], kept.data, (Y.shape[0], len(columns)))
