"""Which training rows go to which training unit, and what of their targets goes with them: a unit gets the rows that
have a label in it (the root all rows), and with matcher-aware negatives those that reach one of its nodes, with the
targets that its nodes are trained on and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcspark.matchers.packed_rows import TrainingRows
from xmcspark.matchers.row_selection import RowCap, row_hashes
from xmcspark.matchers.targets import lift, rows_of
from xmcspark.matchers.trainer import node_seeds
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.distinct import union
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import Unit, node_starts


def target_level(tree: LabelTree, unit: Unit) -> int:
    """The level whose children are the columns of a unit's targets: a single node's own, else that of the labels."""
    return tree.depth - 1 if unit.whole else unit.level


def target_range(tree: LabelTree, unit: Unit) -> tuple[int, int]:
    """(first, last + 1) of those columns, as the whole tree numbers them."""
    first = unit.node - int(node_starts(tree)[unit.level])
    last = first + (1 if unit.whole else unit.nodes)
    for ptr in tree.child_ptr[unit.level : target_level(tree, unit) + 1]:
        first, last = int(ptr[first]), int(ptr[last])
    return first, last


class Router:
    """Deals rows out to some of a tree's units. `caps`: of nodes that take only a part of their rows, by node."""

    def __init__(self, tree: LabelTree, units: Sequence[Unit], caps: Mapping[int, RowCap], seed: int) -> None:
        self._tree, self._units, self._caps, self._seed = tree, list(units), caps, seed
        ranges = np.array([target_range(tree, unit) for unit in self._units], np.int64).reshape(-1, 2)
        self._first, self._width = ranges[:, 0].astype(np.int32), ranges[:, 1] - ranges[:, 0]
        self._levels = [target_level(tree, unit) for unit in self._units]
        self._root = next((place for place, unit in enumerate(self._units) if unit.level == 0), None)
        # By level of targets: the place in `units` of the unit that each column belongs to, -1 if to none of them.
        self._owner: dict[int, np.ndarray] = {}
        for place, level in enumerate(self._levels):
            if level not in self._owner:
                self._owner[level] = np.full(int(tree.child_ptr[level][-1]), -1, np.int32)
            self._owner[level][ranges[place, 0] : ranges[place, 1]] = place

    def routed(self, rows: TrainingRows) -> Iterator[tuple[Unit, TrainingRows]]:
        """The part of `rows` that each unit gets. Y of `rows` has a column per leaf position, Y of a part one per
        target of its unit, from 0."""
        level, Y, costs = self._tree.depth - 1, rows.Y, rows.relevance
        while True:
            if level in self._owner:
                yield from self._dealt(level, rows, Y, costs)
            if level <= min(self._owner, default=level):
                return
            if costs is not None:
                costs = lift(_with(Y, costs), self._tree.child_ptr[level], np.add).data
            Y = lift(Y, self._tree.child_ptr[level], np.maximum)
            level -= 1

    def _dealt(
        self, level: int, rows: TrainingRows, Y: Csr, costs: np.ndarray | None
    ) -> Iterator[tuple[Unit, TrainingRows]]:
        """Copies the rows of all units with targets of this level at once, sorted by unit, and cuts between units."""
        entries, unit_of, row_of = _by_unit(self._owner[level], Y)
        of_unit, taken, indptr = self._places(level, rows, unit_of, row_of)
        columns = Y.indices[entries] - self._first[unit_of]
        together = (
            rows.without_targets()
            .take(taken)
            .with_targets(
                Csr(indptr, columns, Y.data[entries], (len(taken), int(self._width.max()))),
                None if costs is None else costs[entries],
                None if rows.reached is None else self._reached_at(level, rows.reached, of_unit, taken),
            )
        )
        bounds = np.searchsorted(of_unit, np.arange(len(self._units) + 1))
        for place in np.flatnonzero(np.diff(bounds)).tolist():
            unit = self._units[place]
            ends = int(bounds[place]), int(bounds[place + 1])
            part = together.slice(*ends, int(self._width[place]), unit.nodes)
            yield unit, self._chosen(unit, part)

    def _places(
        self, level: int, rows: TrainingRows, unit_of: np.ndarray, row_of: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(unit, row, and where its targets begin) of each row that a unit gets, by unit, then row, from the unit and
        row of each target."""
        if rows.reached is not None:
            _, by_beam, reaching = _by_unit(self._node_owner(level), rows.reached)
            targets = _numbered(unit_of, row_of, len(rows))
            places = union(targets, _numbered(by_beam, reaching, len(rows)))
            indptr = np.append(np.searchsorted(targets, places), len(targets))
            return *np.divmod(places, max(1, len(rows))), indptr.astype(np.int64)
        if self._root is not None and self._levels[self._root] == level:
            # Alone on its level, with all rows, also those without labels.
            indptr = np.searchsorted(row_of, np.arange(len(rows) + 1)).astype(np.int64)
            return np.full(len(rows), self._root, np.int32), np.arange(len(rows)), indptr
        new = np.empty(len(unit_of), bool)  # whether the target is the first of its row in its unit
        new[:1] = True
        np.logical_or(unit_of[1:] != unit_of[:-1], row_of[1:] != row_of[:-1], out=new[1:])
        first = np.flatnonzero(new)
        return unit_of[first], row_of[first], np.append(first, len(unit_of)).astype(np.int64)

    def _reached_at(self, level: int, reached: Csr, of_unit: np.ndarray, taken: np.ndarray) -> Csr:
        """What of the nodes that rows reach lies in the units they are taken to, numbered from the unit's first."""
        entries, unit_of, row_of = _by_unit(self._node_owner(level), reached)
        rows = reached.shape[0]
        numbers = _numbered(unit_of, row_of, rows)
        ends = np.searchsorted(numbers, _numbered(of_unit, taken, rows), side="right")
        indptr = np.concatenate([[0], ends]).astype(np.int64)
        start = int(node_starts(self._tree)[level])
        first = np.array([unit.node - start for unit in self._units], np.int32)
        most = max(unit.nodes for unit in self._units)
        columns = reached.indices[entries] - first[unit_of]
        return Csr(indptr, columns, reached.data[entries], (len(taken), most))

    def _node_owner(self, level: int) -> np.ndarray:
        """The place in `units` of the unit that each node of the level belongs to, -1 if to none of them."""
        starts = node_starts(self._tree)
        owner = np.full(int(starts[level + 1] - starts[level]), -1, np.int32)
        for place, unit in enumerate(self._units):
            first = unit.node - int(starts[level])
            owner[first : first + unit.nodes] = place
        return owner

    def _chosen(self, unit: Unit, rows: TrainingRows) -> TrainingRows:
        """Without the rows that the unit's only node leaves out."""
        cap = self._caps.get(unit.node) if unit.nodes == 1 else None
        if cap is None:
            return rows
        number = unit.node - int(node_starts(self._tree)[unit.level])
        seed = int(node_seeds(self._seed, unit.level, 1, number)[0])
        return rows.take(np.flatnonzero(cap.keeps(row_hashes(seed, rows.keys), rows.Y)))


def _by_unit(owner: np.ndarray, matrix: Csr) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(entries of columns that a unit owns, by unit, then row; the unit and the row of each)"""
    of = owner[matrix.indices]
    entries = np.argsort(of, kind="stable")  # entries of a unit stay in the order of rows
    entries = entries[np.searchsorted(of[entries], 0) :]
    return entries, of[entries], rows_of(matrix)[entries]


def _numbered(unit: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    """One number for a unit and one of so many rows, that increases with both."""
    return np.asarray(unit.astype(np.int64) * max(1, rows) + row)


def _with(Y: Csr, data: np.ndarray) -> Csr:
    return Csr(Y.indptr, Y.indices, data, Y.shape)
