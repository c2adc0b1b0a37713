"""Training rows on their way from where they are read to the task that trains on them: many rows as one string of
bytes, and back. Decides the order in which a task trains on them: by key and hash of the row, whatever the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from xmcspark.matchers.row_store import RowStore
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.text.feature_table import FeatureSpace

PAYLOAD_BYTES = 128 << 10  # of one packed string, about: large for Spark, small beside a task's memory


@dataclass(frozen=True)
class TrainingRows:
    """Rows with all that training needs of them."""

    keys: np.ndarray  # int64: hash of the row's id
    hashes: np.ndarray  # int64: hash of its content
    X: Csr
    Y: Csr  # targets
    relevance: np.ndarray | None = None  # float32, of each entry of Y
    totals: np.ndarray | None = None  # float64, relevance of all labels of the row, also those not in Y
    reached: Csr | None = None  # with matcher-aware negatives: the nodes of one level that beam search opens
    weights: np.ndarray | None = None  # float32 [rows, 2], see `Trainer`; 1 each if there are none

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> TrainingRows:
        """The given rows, in the given order."""
        relevance = None
        if self.relevance is not None:
            costs = Csr(self.Y.indptr, self.Y.indices, self.relevance, self.Y.shape)
            relevance = take_rows(costs, rows).data
        totals = None if self.totals is None else self.totals[rows]
        X, Y = take_rows(self.X, rows), take_rows(self.Y, rows)
        reached = None if self.reached is None else take_rows(self.reached, rows)
        weights = None if self.weights is None else self.weights[rows]
        return TrainingRows(self.keys[rows], self.hashes[rows], X, Y, relevance, totals, reached, weights)

    def slice(self, first: int, last: int, columns: int, nodes: int = 0) -> TrainingRows:
        """Neighbouring rows, not copied, with the first `columns` columns of Y and the first `nodes` of `reached`,
        which are all they have entries in."""
        y = slice(self.Y.indptr[first], self.Y.indptr[last])
        return TrainingRows(
            self.keys[first:last],
            self.hashes[first:last],
            _slice(self.X, first, last, self.X.shape[1]),
            _slice(self.Y, first, last, columns),
            None if self.relevance is None else self.relevance[y],
            None if self.totals is None else self.totals[first:last],
            None if self.reached is None else _slice(self.reached, first, last, nodes),
            None if self.weights is None else self.weights[first:last],
        )

    def without_targets(self) -> TrainingRows:
        empty = np.zeros(len(self) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        return replace(self, Y=Csr(*empty, (len(self), 1)), relevance=None, reached=None)

    def with_targets(self, Y: Csr, relevance: np.ndarray | None, reached: Csr | None = None) -> TrainingRows:
        return replace(self, Y=Y, relevance=relevance, reached=reached)


def _slice(matrix: Csr, first: int, last: int, columns: int) -> Csr:
    at = slice(matrix.indptr[first], matrix.indptr[last])
    indptr = matrix.indptr[first : last + 1] - matrix.indptr[first]
    dense = None if matrix.dense is None else matrix.dense[first:last]
    return Csr(indptr, matrix.indices[at], matrix.data[at], (last - first, columns), dense)


def packed_rows(rows: TrainingRows, size: int = PAYLOAD_BYTES, store: str = "") -> Iterator[bytes]:
    """The rows as strings of about `size` bytes, at least one row each. `store`: the name that rows of X are kept
    under (row_store.py), where X is but references to them."""
    ends = 8 * rows.X.indptr[1:] + 12 * rows.Y.indptr[1:]
    ends = ends + (32 + 4 * rows.X.width) * np.arange(1, len(rows) + 1)
    if rows.reached is not None:
        ends += 4 * rows.reached.indptr[1:]
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + size, side="right")))
        yield _packed(rows, first, last, np.frombuffer(store.encode(), np.uint8))
        first = last


def _packed(rows: TrainingRows, first: int, last: int, store: np.ndarray) -> bytes:
    x = slice(rows.X.indptr[first], rows.X.indptr[last])
    y = slice(rows.Y.indptr[first], rows.Y.indptr[last])
    targets = rows.Y.data[y]
    nothing = np.zeros(0, np.float32)
    return packed(
        rows.keys[first:last],
        rows.hashes[first:last],
        np.diff(rows.X.indptr[first : last + 1]).astype(np.int32),
        rows.X.indices[x],
        rows.X.data[x],
        np.diff(rows.Y.indptr[first : last + 1]).astype(np.int32),
        rows.Y.indices[y],
        nothing if (targets == 1.0).all() else targets,  # most are
        nothing if rows.relevance is None else rows.relevance[y],
        nothing if rows.totals is None else rows.totals[first:last],
        *_packed_nodes(rows.reached, first, last),
        nothing if rows.weights is None else rows.weights[first:last].ravel(),
        store,
        nothing if rows.X.dense is None else rows.X.dense[first:last].ravel(),
    )


def _packed_nodes(reached: Csr | None, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    if reached is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    at = slice(reached.indptr[first], reached.indptr[last])
    return np.diff(reached.indptr[first : last + 1]).astype(np.int32), reached.indices[at]


def unpacked_rows(
    payloads: list[object],
    space: FeatureSpace,
    columns: int,
    costs: bool,
    nodes: int | None = None,
    kept: RowStore | None = None,
) -> TrainingRows:
    """All rows of `packed_rows` strings in the order of training, whatever the order of the strings. The list is
    emptied on the way, so that the strings are gone when the rows are put in order. `costs`: relevance is packed;
    `nodes`: what the rows reach is, of so many nodes. `kept`: the rows of X that are referred to."""
    parts = [unpacked(payload) for payload in payloads]
    payloads.clear()
    keys, hashes = _joined(parts, 0, np.int64), _joined(parts, 1, np.int64)
    targets = [part[7] if len(part[7]) else np.ones(len(part[6]), np.float32) for part in parts]
    X = _csr(parts, 2, _joined(parts, 4, np.float32), space.size)
    dense = _joined(parts, 14, np.float32)
    if len(dense) or (
        space.width and not len(keys)
    ):  # also without rows: matchers that say no have a block too
        X = replace(X, dense=dense.reshape(len(keys), space.width))
    Y = _csr(parts, 5, np.concatenate([*targets, np.zeros(0, np.float32)]), columns)
    relevance = _joined(parts, 8, np.float32) if costs else None
    totals = _joined(parts, 9, np.float64) if costs else None
    reached = None
    if nodes is not None:
        found = _joined(parts, 11, np.int32)
        reached = _csr(parts, 10, np.ones(len(found), np.float32), nodes)
    weights = _joined(parts, 12, np.float32).reshape(-1, 2)
    names, which = _stores(parts)
    del parts, targets
    rows = TrainingRows(
        keys, hashes, X, Y, relevance, totals, reached, weights if len(weights) and len(keys) else None
    )
    order = _training_order(keys, hashes)
    rows = rows.take(order)
    if kept is None or not names:
        return rows
    return replace(rows, X=kept.rows(names, which[order], rows.X.indices, space.size))


def _training_order(keys: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    order = np.argsort(keys)  # several times as fast as by both
    in_order = keys[order]
    return np.lexsort((hashes, keys)) if (in_order[1:] == in_order[:-1]).any() else order


def _stores(parts: list[list[np.ndarray]]) -> tuple[list[str], np.ndarray]:
    """(names that rows of X are kept under, for each row which of them)"""
    of_part = [part[13].tobytes().decode() for part in parts]
    names = sorted(set(of_part) - {""})
    number = {name: at for at, name in enumerate(["", *names], -1)}
    sizes = [len(part[0]) for part in parts]
    return names, np.repeat(np.array([number[name] for name in of_part], np.int32), sizes)


def _joined(parts: list[list[np.ndarray]], number: int, dtype: type) -> np.ndarray:
    return np.concatenate([*(part[number] for part in parts), np.zeros(0, dtype)])


def _csr(parts: list[list[np.ndarray]], sizes: int, data: np.ndarray, columns: int) -> Csr:
    counts, indices = _joined(parts, sizes, np.int32), _joined(parts, sizes + 1, np.int32)
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return Csr(indptr, indices, data, (len(counts), columns))
