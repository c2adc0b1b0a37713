"""The labels that a batch of queries is trained on (paper 5, algorithm 1): some positives of each query, some of its
mined hard negatives, and which of all these are positives of which query, sampled or not. What is drawn follows from
the seed, the step, the query and the label, so every process draws the same pool."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams, uniform
from xmcspark.matchers.targets import rows_of
from xmcspark.sparse.csr import Csr

_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class LabelPool:
    """L_B, and P^B as pairs (query, label) in the order of queries."""

    labels: np.ndarray  # int64, increasing: L_B
    n_queries: int
    row: np.ndarray  # int64: of each pair the query, as its place in the batch
    column: np.ndarray  # int64: and the label, as its place in `labels`
    target: np.ndarray  # float32
    one_of_row: np.ndarray  # bool: the pair that stands for its query where only one may
    one_of_column: np.ndarray  # bool: the pair that stands for its label

    @property
    def average_positives(self) -> float:
        """The mean of |P^B| over queries (paper 5, figure 2.2b)."""
        return len(self.row) / self.n_queries

    def cells_of(self, excluded: Csr) -> tuple[np.ndarray, np.ndarray]:
        """(queries, places of labels) of what is in the pool of `excluded`, one row a query; positives stay so."""
        place = np.minimum(np.searchsorted(self.labels, excluded.indices), len(self.labels) - 1)
        row, width = rows_of(excluded), len(self.labels)
        wanted = self.labels[place] == excluded.indices
        wanted &= ~np.isin(row * width + place, self.row * width + self.column)
        return row[wanted], place[wanted]

    def among(self, labels: np.ndarray) -> LabelPool:
        """The same pairs in a larger pool (increasing), whose further labels are negatives of all queries."""
        place = np.searchsorted(labels, self.labels)
        return replace(self, labels=labels, column=place[self.column])


@dataclass(frozen=True)
class PoolSampler:
    """How many labels each query brings into the pool."""

    positives: int | None  # β at most; None takes all
    hard_negatives: int  # η at most
    size: int | None  # of the pool: filled up or cut, at mined negatives first; None: as it comes
    seed: int
    # labels to fill a pool up with, where its queries have no more; None: none
    others: np.ndarray | None = None
    at_least: bool = False  # whether a pool that has more than `size` stays as it comes

    def pool(self, Y: Csr, rows: np.ndarray, step: int, mined: np.ndarray | None = None) -> LabelPool:
        """The pool of the queries `rows` (rows of Y, whose values are targets) in a step.

        `mined`: hard negatives, one row of labels for each row of Y; -1 where there are fewer.
        """
        known = _Entries.of(Y, rows, streams(self.seed, f"positives of step {step}", rows))
        sampled = known.rank < (len(known.label) if self.positives is None else self.positives)
        parts = [known.label[sampled]]
        if mined is not None and self.hard_negatives:
            stream = streams(self.seed, f"hard negatives of step {step}", rows)
            parts.append(_drawn(mined[rows], stream, self.hard_negatives))
        labels = np.unique(np.concatenate(parts)).astype(np.int64)
        if self.size is not None and not (self.at_least and len(labels) >= self.size):
            parts += [known.label[~sampled], self._at_random(self.size, step)]
            labels = self._sized(parts, self.size, step)
        if not len(labels):
            raise InputError(
                f"step {step}: none of its {len(rows)} queries has a label, so there is nothing to compare them with; "
                "leave instances without labels out of training"
            )
        return self._matched(known, labels, rows, step)

    def _at_random(self, count: int, step: int) -> np.ndarray:
        """So many labels or more, out of those that a pool may be filled up with. All of them if these are few; else
        twice as many are drawn, in a time that does not follow the number of labels, and some come twice."""
        if self.others is None:
            return np.zeros(0, np.int64)
        if len(self.others) <= 4 * count:
            return self.others
        drawn = hashed(streams(self.seed, f"labels at random of step {step}", np.arange(2 * count)), 0)
        return np.asarray(self.others[(drawn % np.uint64(len(self.others))).astype(np.int64)])

    def _sized(self, parts: list[np.ndarray], size: int, step: int) -> np.ndarray:
        """`size` labels of the first parts; within the part where that is reached, by hash."""
        label = np.concatenate(parts)
        part = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        drawn = hashed(streams(self.seed, f"pool of step {step}", label), 0)
        order = np.lexsort((drawn, part))
        label = label[order]
        _, first = np.unique(label, return_index=True)  # a label counts in the first part that has it
        return np.sort(label[np.sort(first)[:size]]).astype(np.int64)

    def _matched(self, known: _Entries, labels: np.ndarray, rows: np.ndarray, step: int) -> LabelPool:
        """All positives of the queries that are in the pool, however they came there."""
        place = np.minimum(np.searchsorted(labels, known.label), len(labels) - 1)
        inside = labels[place] == known.label
        row, column = known.row[inside], place[inside]
        one_of_row = np.diff(row, prepend=-1) > 0  # entries of a query are in the order of their draws
        stream = streams(self.seed, f"query of a label in step {step}", rows)[row]
        order = np.lexsort((_times(stream, known.label[inside], known.target[inside]), column))
        one_of_column = np.zeros(len(row), bool)
        one_of_column[order] = np.diff(column[order], prepend=-1) > 0
        return LabelPool(labels, len(rows), row, column, known.target[inside], one_of_row, one_of_column)


@dataclass(frozen=True)
class _Entries:
    """The labels of some queries, those of one together, in the order in which they are drawn: the softer a target, the
    later, on average."""

    row: np.ndarray
    label: np.ndarray
    target: np.ndarray
    rank: np.ndarray  # among the labels of the query

    @staticmethod
    def of(Y: Csr, rows: np.ndarray, stream: np.ndarray) -> _Entries:
        start, counts = Y.indptr[rows], Y.indptr[rows + 1] - Y.indptr[rows]
        row = np.repeat(np.arange(len(rows)), counts)
        first = np.cumsum(counts) - counts  # where each query's entries begin here
        at = np.arange(len(row)) - first[row] + start[row]
        label, target = Y.indices[at], Y.data[at]
        order = np.lexsort((_times(stream[row], label, target), row))
        return _Entries(row, label[order], target[order], np.arange(len(row)) - first[row])


def _times(stream: np.ndarray, label: np.ndarray, target: np.ndarray) -> np.ndarray:
    """When each comes, at the rate of its target: it is the first of several as often as its share of their targets."""
    return np.asarray(-np.log1p(-uniform(stream, label)) / target)


def _drawn(mined: np.ndarray, stream: np.ndarray, count: int) -> np.ndarray:
    """`count` labels of each row, uniformly, or as many as there are."""
    drawn = hashed(stream[:, None], mined)
    drawn[mined < 0] = _LAST
    if count < mined.shape[1]:
        chosen = np.argpartition(drawn, count - 1, axis=1)[:, :count]
        mined = np.take_along_axis(mined, chosen, axis=1)
    return mined[mined >= 0]
