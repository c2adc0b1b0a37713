"""Which labels occur together: G = YᵀY (paper 5, eq. 1.5) as whole counts, exact whatever the partitions, and the
strongest neighbours of each label. Decides what bounds the quadratic growth: labels per instance, neighbours per
label, and how many pairs are multiplied at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams
from xmcspark.labels.label_sums import LabelSums, label_sums
from xmcspark.matchers.targets import nonzero, pattern, rows_of, select
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.spgemm import Cut
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND = "label graph"  # as saved
_VERSION = 1
_MOST_PAIRS = 1 << 24  # multiplied at once: 200 MB before equal pairs are added


@dataclass(frozen=True)
class Neighbours:
    """For each label j, some labels i with their counts G_ij, j itself among them."""

    labels: np.ndarray  # int32, increasing
    indptr: np.ndarray  # int64[len(labels) + 1]
    neighbours: np.ndarray  # int32, increasing in each row
    counts: np.ndarray  # int64, none above the row's own
    own: np.ndarray  # int64[len(labels)]: G_jj

    def __post_init__(self) -> None:
        rows, entries = len(self.labels), len(self.neighbours)
        if len(self.indptr) != rows + 1 or len(self.own) != rows or len(self.counts) != entries:
            raise InputError(
                f"neighbours: {rows} labels need {rows + 1} row pointers and {rows} counts of their own, and "
                f"{entries} neighbours as many counts; found {len(self.indptr)}, {len(self.own)}, {len(self.counts)}"
            )

    @property
    def rows(self) -> np.ndarray:
        """Of each entry, the row it is in."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.indptr))

    @property
    def itself(self) -> np.ndarray:
        """Of each entry, whether it is the label itself."""
        found: np.ndarray = self.neighbours == np.repeat(self.labels, np.diff(self.indptr))
        return found

    @property
    def ratio(self) -> np.ndarray:
        """float64: P[i | j] = G_ij / G_jj of each entry (paper 5, eq. 1.5). Compare these with a threshold, not
        what they are rounded to: 1 of 10 is no more than 0.1."""
        shares: np.ndarray = self.counts / np.repeat(self.own, np.diff(self.indptr))
        return shares

    @property
    def probability(self) -> np.ndarray:
        """float32: `ratio`, as tables have it."""
        return self.ratio.astype(np.float32)

    def largest(self, most: int) -> tuple[Neighbours, Cut]:
        """Each label's `most` neighbours of largest counts besides itself, of equal ones the lower ids, and what was
        cut."""
        lengths = np.diff(self.indptr)
        over = lengths > most + 1
        if not over.any():
            return self, Cut()
        others = np.flatnonzero(np.repeat(over, lengths) & ~self.itself)
        rank = _rank_in_row(self.rows[others], -self.counts[others])
        kept = np.ones(len(self.neighbours), bool)
        kept[others[rank >= most]] = False
        indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[self.indptr]
        cut = Cut(int(over.sum()), len(kept) - int(kept.sum()))
        return Neighbours(self.labels, indptr, self.neighbours[kept], self.counts[kept], self.own), cut

    def take(self, places: np.ndarray) -> Neighbours:
        """Some rows, by their places (increasing)."""
        lengths = np.diff(self.indptr)
        wanted = np.zeros(len(lengths), bool)
        wanted[places] = True
        kept = np.repeat(wanted, lengths)
        indptr = np.concatenate([[0], np.cumsum(lengths[places], dtype=np.int64)])
        return Neighbours(
            self.labels[places], indptr, self.neighbours[kept], self.counts[kept], self.own[places]
        )

    def save(self, folder: str | Path) -> None:
        """Writes the graph as arrays that `load` maps into memory."""
        save_arrays(Path(folder), _KIND, _VERSION, {}, vars(self))

    def fill(self, part: Neighbours) -> None:
        """Puts the rows of a part, in any order, where this graph has room for them."""
        places = np.searchsorted(self.labels, part.labels)
        lengths = np.diff(part.indptr)
        entries = np.repeat(self.indptr[places] - part.indptr[:-1], lengths) + np.arange(len(part.neighbours))
        self.neighbours[entries], self.counts[entries] = part.neighbours, part.counts

    @staticmethod
    def load(folder: str | Path) -> Neighbours:
        _, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        try:
            return Neighbours(**arrays)
        except TypeError as error:
            raise InputError(f"{folder} is no complete {_KIND}: save it again") from error


def capped_labels(Y: Csr, row_keys: np.ndarray, most: int, seed: int) -> tuple[Csr, int, int]:
    """(Y with at most `most` labels a row, rows cut, entries cut). Which labels stay follows from the seed, the row's
    key and the labels."""
    lengths = np.diff(Y.indptr)
    if len(row_keys) != len(lengths):
        raise InputError(f"there are {len(row_keys)} row keys for {len(lengths)} rows: one each is needed")
    over = lengths > most
    if not over.any():
        return Y, 0, 0
    entries = np.flatnonzero(np.repeat(over, lengths))
    rows = rows_of(Y)[entries]
    drawn = hashed(streams(seed, "labels of an instance", row_keys)[rows], Y.indices[entries])
    dropped = entries[_rank_in_row(rows, drawn) >= most]
    kept = np.ones(Y.nnz, bool)
    kept[dropped] = False
    return select(Y, kept), int(over.sum()), len(dropped)


def cooccurrence_parts(Y: Csr, threads: int = 1, most_pairs: int = _MOST_PAIRS) -> Iterator[LabelSums]:
    """YᵀY of some instances, as counts: whatever the values of Y, an entry that is not zero counts as one. In parts,
    each over instances that have at most `most_pairs` pairs of labels together (or over one that has more): what a
    task should send on one by one. At least one part, which may be empty; `add_label_sums` adds them up."""
    ones = pattern(nonzero(Y))
    for start, stop in _portions(np.square(np.diff(ones.indptr)), most_pairs):
        part = _row_range(ones, start, stop)
        yield label_sums(part, part, grid=1.0, threads=threads)


def counted_neighbours(
    Y: Csr, most: int, threads: int = 1, most_pairs: int = _MOST_PAIRS
) -> tuple[Neighbours, Cut]:
    """Each label of all instances with itself and its strongest `most` neighbours, and what was cut. Counted for some
    labels after the other, as many as have `most_pairs` pairs with others: what is cut is never held all at once."""
    ones = pattern(nonzero(Y))
    lengths = np.diff(ones.indptr)
    pairs = np.bincount(ones.indices, np.repeat(lengths, lengths), Y.shape[1])  # whole numbers, exact to 2^53
    found, rows, entries = [], 0, 0
    for first, last in _portions(pairs, most_pairs):
        some = select(ones, (ones.indices >= first) & (ones.indices < last))
        part, cut = neighbours_of(label_sums(ones, some, grid=1.0, threads=threads), most)
        found.append(part)
        rows, entries = rows + cut.rows, entries + cut.entries
    return joined_neighbours(found), Cut(rows, entries)


def neighbours_of(sums: LabelSums, most: int) -> tuple[Neighbours, Cut]:
    """Each label of finished sums with itself and its strongest `most` neighbours, and what was cut."""
    counts = sums.sums.astype(np.int64)
    graph = Neighbours(sums.labels, sums.indptr, sums.indices, counts, np.zeros(len(sums.labels), np.int64))
    own = counts[graph.itself]
    if len(own) != len(graph.labels):
        raise InputError("a label does not occur with itself: these are no sums of cooccurrence_parts")
    return Neighbours(sums.labels, sums.indptr, sums.indices, counts, own).largest(most)


def alone(labels: np.ndarray) -> Neighbours:
    """Labels that no instance has: each has itself, once."""
    ones = np.ones(len(labels), np.int64)
    return Neighbours(labels, np.arange(len(labels) + 1, dtype=np.int64), labels, ones, ones)


def joined_neighbours(parts: Sequence[Neighbours]) -> Neighbours:
    """The rows of several parts, which have no label in common, in the order of their labels."""
    labels, own, neighbours, counts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "own", "neighbours", "counts")
    )
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    order = np.argsort(labels, kind="stable")
    starts = (np.cumsum(lengths) - lengths)[order]
    indptr = np.concatenate([[0], np.cumsum(lengths[order], dtype=np.int64)])
    entries = np.repeat(starts - indptr[:-1], lengths[order]) + np.arange(indptr[-1])
    return Neighbours(labels[order], indptr, neighbours[entries], counts[entries], own[order])


def graph_on_disk(sizes: Iterable[Sequence[np.ndarray]], folder: Path) -> Neighbours:
    """A graph whose entries lie in files of `folder`, for `fill`; `sizes`: labels, their numbers of entries and their
    own counts, in parts. In memory are 20 bytes a label."""
    labels, lengths, own = (np.concatenate(parts) for parts in zip(*sizes, strict=True))
    order = np.argsort(labels)
    indptr = np.concatenate([[0], np.cumsum(lengths[order], dtype=np.int64)])
    neighbours, counts = (
        np.memmap(folder / name, kind, "w+", shape=(int(indptr[-1]),))
        for name, kind in (("neighbours", np.int32), ("counts", np.int64))
    )
    return Neighbours(labels[order], indptr, neighbours, counts, own[order])


def _portions(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of neighbouring items whose sizes add up to at most `most`, or of one that is larger. At
    least one portion, which has no item if there is none."""
    ends = np.cumsum(sizes)
    start = 0
    while True:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, min(stop, len(ends))
        start = stop
        if start >= len(ends):
            return


def _rank_in_row(rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The place of each entry in its row by rising key; equal keys keep their order. `rows` does not decrease."""
    first = np.searchsorted(rows, rows)
    ranks = np.empty(len(rows), np.int64)
    ranks[np.lexsort((keys, rows))] = np.arange(len(rows)) - first
    return ranks


def _row_range(matrix: Csr, start: int, stop: int) -> Csr:
    first, last = matrix.indptr[start], matrix.indptr[stop]
    indptr = matrix.indptr[start : stop + 1] - first
    return Csr(indptr, matrix.indices[first:last], matrix.data[first:last], (stop - start, matrix.shape[1]))
