"""The upper levels of a tree as two-way splits that any label can be sent down by itself: a split is a plane between
the centres of its two sides, and a cut along it that gives each side its share of the labels. Margins are integers and
cuts follow from counts of labels by margin, so that labels can be counted in parts, anywhere and in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmcspark.sparse.csr import Csr
from xmcspark.sparse.id_hash import bits, mixed
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.shape import Shape

_KIND, _VERSION = "label splits", 1
_UNIT = 1 << 15  # a label vector's length, as in native/label_rows.h
_PLANE_UNIT = 1 << 24  # 1.0 in a plane
# A margin of 1.0 is _UNIT * _PLANE_UNIT, and none is beyond 2.0. Margins are counted in 2^16 buckets.
_BUCKET_SHIFT, _MIDDLE = 39 - 14, 1 << 15
_MOST_ENTRIES, _MOST_FEATURES, _FEWEST_FEATURES = 1 << 22, 1 << 14, 1 << 8  # of all planes, of one plane


@dataclass(frozen=True)
class Splits:
    """All splits, the first at the root, in the order of rounds: a label meets one split a round until it arrives."""

    round_ptr: np.ndarray  # int64[rounds + 1]: the first split of each round
    sides: np.ndarray  # int32[2 * splits]: where left and right lead: a split, or ~node of the last level
    leaves: np.ndarray  # int64[2 * splits]: leaf clusters on the left and on the right
    indptr: np.ndarray  # of planes, which are sparse rows: splits x features
    indices: np.ndarray
    weights: np.ndarray  # int32

    @property
    def rounds(self) -> int:
        return len(self.round_ptr) - 1

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(Splits)}

    def save(self, folder: Path) -> None:
        save_arrays(folder, _KIND, _VERSION, {}, self.arrays)

    @staticmethod
    def load(folder: Path) -> Splits:
        return Splits(**load_arrays(folder, _KIND, _VERSION)[1])


@dataclass(frozen=True)
class Cuts:
    """Where splits divide, of those of the rounds so far: left are margins in buckets above `bucket`, and of those in
    it the labels whose hash is below `below`."""

    bucket: np.ndarray  # int32
    below: np.ndarray  # uint64

    @staticmethod
    def none() -> Cuts:
        return Cuts(np.zeros(0, np.int32), np.zeros(0, np.uint64))

    def and_then(self, more: Cuts) -> Cuts:
        return Cuts(np.concatenate([self.bucket, more.bucket]), np.concatenate([self.below, more.below]))


def splits_between(Z: Csr, node: np.ndarray, shape: Shape, stop: int) -> Splits:
    """The splits that lead from the root to the nodes of level `stop`, from labels whose node there is known. A node of
    several children is halved again and again, as in native/cluster.h."""
    rounds = _halvings(shape, stop)
    count = sum(len(halvings) for halvings in rounds)
    most = max(_FEWEST_FEATURES, min(_MOST_FEATURES, _MOST_ENTRIES // max(1, count)))
    nodes = (1, *(int(ptr[-1]) for ptr in shape.child_ptr))[stop]
    inside = sp.csr_matrix((np.ones(len(node), np.int64), (node, np.arange(len(node)))), (nodes, len(node)))
    units = on_grid(Z).to_scipy().astype(np.int64)
    sums = inside @ units  # of integers: exact in any order
    planes = [plane for halvings in rounds for plane in _planes(sums, halvings, most)]
    halvings = [halving for of_round in rounds for halving in of_round]
    return Splits(
        np.concatenate([[0], np.cumsum([len(of_round) for of_round in rounds])]).astype(np.int64),
        np.array([side for h in halvings for side in h.sides], np.int32),
        np.array([leaves for h in halvings for leaves in h.leaves], np.int64),
        np.concatenate([[0], np.cumsum([len(features) for features, _ in planes])]).astype(np.int64),
        np.concatenate([np.zeros(0, np.int32), *(features for features, _ in planes)]),
        np.concatenate([np.zeros(0, np.int32), *(weights for _, weights in planes)]),
    )


def on_grid(Z: Csr) -> Csr:
    """Rows of length 1 in whole numbers of 2^-15, as native/label_rows.h rounds them."""
    row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
    values = Z.data.astype(np.float64)
    square = _row_sums(row, values * values, Z.shape[0])
    scale = np.divide(_UNIT, np.sqrt(square), out=np.zeros_like(square), where=square > 0)
    scaled = values * scale[row]
    rounded = np.clip(np.trunc(scaled + np.copysign(0.5, scaled)), 1 - _UNIT, _UNIT - 1)
    return Csr(Z.indptr, Z.indices, rounded.astype(np.float32), Z.shape)


class Walk:
    """Labels on their way down. `labels` are the numbers of the rows of Z."""

    def __init__(self, splits: Splits, Z: Csr, labels: np.ndarray, seed: int) -> None:
        self._splits, self._Z = splits, on_grid(Z)
        self._hash, self._seed = mixed(bits(labels)), mixed(np.array([seed], np.uint64))
        self._table = np.zeros(Z.shape[1], np.int64)
        self._rounds = 0  # behind them
        self.at = np.zeros(len(labels), np.int32)  # the split that a label is at, or ~node
        if not splits.rounds:
            self.at[:] = ~0

    def follow(self, cuts: Cuts) -> Walk:
        """Goes on as far as the cuts lead: those of all rounds from the first on."""
        while self._splits.round_ptr[self._rounds] < len(cuts.bucket):
            self._rounds += 1
            moving = np.flatnonzero(self.at >= 0)
            split, bucket = self.at[moving], self._buckets(moving)
            hashes = mixed(self._hash[moving] ^ mixed(self._seed ^ split.astype(np.uint64)))
            left = (bucket > cuts.bucket[split]) | (
                (bucket == cuts.bucket[split]) & (hashes < cuts.below[split])
            )
            self.at[moving] = self._splits.sides[2 * split + ~left]
        return self

    def counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(split, bucket, labels) of the labels that have not arrived."""
        moving = np.flatnonzero(self.at >= 0)
        found, labels = np.unique(_key(self.at[moving], self._buckets(moving)), return_counts=True)
        return *_of_key(found), labels

    def _buckets(self, rows: np.ndarray) -> np.ndarray:
        """int32: the bucket of the margin of each row at its split."""
        order = np.argsort(self.at[rows], kind="stable")
        Z, split = take_rows(self._Z, rows[order]), self.at[rows][order]
        values = Z.data.astype(np.int64)
        margins = np.empty(len(rows), np.int64)
        for first, last in _runs(split):
            table = self._plane(int(split[first]))
            a, b = Z.indptr[first], Z.indptr[last]
            sums = np.concatenate([[0], np.cumsum(values[a:b] * table[Z.indices[a:b]])])
            ends = Z.indptr[first : last + 1] - a
            margins[first:last] = sums[ends[1:]] - sums[ends[:-1]]
            self._clear(int(split[first]))
        found = np.empty(len(rows), np.int32)
        found[order] = np.clip((margins >> _BUCKET_SHIFT) + _MIDDLE, 0, 2 * _MIDDLE)
        return found

    def _plane(self, split: int) -> np.ndarray:
        at = slice(self._splits.indptr[split], self._splits.indptr[split + 1])
        self._table[self._splits.indices[at]] = self._splits.weights[at]
        return self._table

    def _clear(self, split: int) -> None:
        at = slice(self._splits.indptr[split], self._splits.indptr[split + 1])
        self._table[self._splits.indices[at]] = 0


def cut_of(bucket: np.ndarray, labels: np.ndarray, left: int, right: int) -> tuple[int, int]:
    """(bucket, below) of the cut that gives the left side left / (left + right) of the labels, whose number is known by
    bucket."""
    wanted = int(labels.sum()) * left // (left + right)
    order = np.argsort(-bucket, kind="stable")
    upto = np.cumsum(labels[order])
    place = int(np.searchsorted(upto, wanted, side="left"))
    number = int(bucket[order[place]])
    missing = wanted - (int(upto[place - 1]) if place else 0)
    of = int(labels[order[place]])
    # Of equals, a share by hash; all of them are everything above the next bucket.
    return (number - 1, 0) if missing == of else (number, (missing << 64) // of)


def cuts_of_round(splits: Splits, round: int, found: dict[int, tuple[int, int]]) -> Cuts:
    """From the cuts of its splits; one that no label met leads nowhere."""
    cuts = [found.get(split, (0, 0)) for split in range(splits.round_ptr[round], splits.round_ptr[round + 1])]
    return Cuts(np.array([b for b, _ in cuts], np.int32), np.array([h for _, h in cuts], np.uint64))


def cuts_by_split(
    splits: Splits, split: np.ndarray, bucket: np.ndarray, labels: np.ndarray
) -> dict[int, tuple[int, int]]:
    """From the counts of all labels, in any number of parts and in any order."""
    keys, at = np.unique(_key(split, bucket), return_inverse=True)
    sums = np.bincount(at, weights=labels).astype(np.int64)  # of integers: exact
    split, bucket = _of_key(keys)
    found = {}
    for first, last in _runs(split):
        number = int(split[first])
        left, right = splits.leaves[2 * number : 2 * number + 2].tolist()
        found[number] = cut_of(bucket[first:last], sums[first:last], left, right)
    return found


def _key(split: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """One number for both, that increases with both."""
    return np.asarray(split.astype(np.int64) << 17 | bucket)


def _of_key(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (key >> 17).astype(np.int32), (key & (1 << 17) - 1).astype(np.int32)


@dataclass(frozen=True)
class _Halving:
    ends: list[int]  # nodes of the last level: where the left ones begin, the right ones, and where these end
    sides: list[int]
    leaves: list[int]


def _halvings(shape: Shape, stop: int) -> list[list[_Halving]]:
    """Of each round."""
    top, count, rounds = _settled(shape, stop, 0, 0, 1), 0, []
    parts = [top] if top[2] - top[1] > 1 else []
    while parts:
        count += len(parts)
        halvings: list[_Halving] = []
        below: list[tuple[int, int, int]] = []
        for level, a, b in parts:
            middle, sides = (a + b) // 2, []
            for first, last in ((a, middle), (middle, b)):
                part = _settled(shape, stop, level, first, last)
                arrived = part[2] - part[1] == 1
                sides.append(~part[1] if arrived else count + len(below))
                below += [] if arrived else [part]
            ends = [_below(shape, level, x, stop) for x in (a, middle, b)]
            leaf = [_below(shape, level, x, len(shape.child_ptr)) for x in (a, middle, b)]
            halvings.append(_Halving(ends, sides, [leaf[1] - leaf[0], leaf[2] - leaf[1]]))
        rounds.append(halvings)
        parts = below
    return rounds


def _settled(shape: Shape, stop: int, level: int, a: int, b: int) -> tuple[int, int, int]:
    """Goes down while there is one node only."""
    while b - a == 1 and level < stop:
        a, b, level = int(shape.child_ptr[level][a]), int(shape.child_ptr[level][b]), level + 1
    return level, a, b


def _below(shape: Shape, level: int, node: int, last: int) -> int:
    """The first node of level `last` that is below nodes from `node` on."""
    for ptr in shape.child_ptr[level:last]:
        node = int(ptr[node])
    return node


def _planes(
    sums: sp.csr_matrix, halvings: list[_Halving], most: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(features, weights) of the planes between the centres of both sides, the `most` largest weights of each."""
    left = _unit_sums(sums, [(h.ends[0], h.ends[1]) for h in halvings])
    right = _unit_sums(sums, [(h.ends[1], h.ends[2]) for h in halvings])
    difference = (left - right).tocsr()
    difference.sort_indices()
    for row in range(len(halvings)):
        at = slice(difference.indptr[row], difference.indptr[row + 1])
        features, weights = difference.indices[at], np.rint(difference.data[at] * _PLANE_UNIT)
        if len(features) > most:
            kept = np.sort(np.lexsort((features, -np.abs(weights)))[:most])
            features, weights = features[kept], weights[kept]
        yield features.astype(np.int32), weights.astype(np.int32)


def _unit_sums(sums: sp.csr_matrix, ranges: list[tuple[int, int]]) -> sp.csr_matrix:
    """Sums of ranges of rows, of length 1."""
    sizes = [b - a for a, b in ranges]
    columns = np.concatenate([np.arange(a, b) for a, b in ranges])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    selector = sp.csr_matrix((np.ones(len(columns), np.int64), columns, indptr), (len(ranges), sums.shape[0]))
    total = (selector @ sums).tocsr()
    total.sort_indices()
    row = np.repeat(np.arange(len(ranges)), np.diff(total.indptr))
    values = total.data.astype(np.float64)
    length = np.sqrt(_row_sums(row, values * values, len(ranges)))
    total.data = np.divide(values, length[row], out=np.zeros_like(values), where=length[row] > 0)
    return total


def _row_sums(row: np.ndarray, values: np.ndarray, rows: int) -> np.ndarray:
    """float64: of each row, its values added from left to right, on every machine alike."""
    return np.bincount(row, weights=values, minlength=rows).astype(np.float64)


def _runs(values: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of each run of equal values."""
    if not len(values):
        return
    bounds = np.flatnonzero(np.diff(values)) + 1
    yield from zip([0, *bounds.tolist()], [*bounds.tolist(), len(values)], strict=True)
