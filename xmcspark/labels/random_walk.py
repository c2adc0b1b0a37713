"""The label graph by random walks with restarts (Mittal et al. 2021; paper 5, table 1.7): labels that are reached
through others count too. A label's walk follows from the seed, the label and the graph, so tasks walk for their own
labels and all agree."""

from __future__ import annotations

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.cooccurrence import Neighbours, joined_neighbours
from xmcspark.labels.draws import streams, uniform

_BLOCK_VISITS = 1 << 22  # held at once, of all walks of a block of labels


def walked(
    graph: Neighbours, labels: np.ndarray, restart: float, length: int, seed: int, block: int | None = None
) -> Neighbours:
    """Visits in place of counts, for walks from each of `labels` (increasing, all in the graph).

    A walk is `length` hops; each goes to a label drawn with probability proportional to co-occurrence (the label it
    leaves included) and is a visit there. Before each hop the walk jumps back to its start with probability `restart`,
    which is no visit. So the ratio of visits to those of the start is about G_ij / G_jj for direct neighbours. A start
    that was never visited counts once; a label visited more often than the start, as often. `block`: labels walked
    from together, which changes nothing.
    """
    return Walker(graph, restart, length, seed).walked(labels, block)


class Walker:
    """Walks over one graph; holds 8 bytes for each of its entries."""

    def __init__(self, graph: Neighbours, restart: float, length: int, seed: int) -> None:
        self._graph, self._restart, self._length, self._seed = graph, restart, length, seed
        self._ends = np.cumsum(graph.counts)
        self._starts = np.concatenate([[0], self._ends])[graph.indptr]
        self._place = np.full(int(graph.labels.max(initial=0)) + 1, -1, np.int32)
        self._place[graph.labels] = np.arange(len(graph.labels), dtype=np.int32)

    @property
    def labels(self) -> np.ndarray:
        """Those it can start from."""
        return self._graph.labels

    def walked(self, labels: np.ndarray, block: int | None = None) -> Neighbours:
        """As the function of that name."""
        step = block or max(1, _BLOCK_VISITS // (self._length + 1))
        starts = range(0, max(1, len(labels)), step)
        return joined_neighbours([self.visits(labels[at : at + step]) for at in starts])

    def visits(self, labels: np.ndarray) -> Neighbours:
        """How often the walk of each label was where."""
        path = np.empty((len(labels), self._length + 1), np.int32)
        path[:, 0] = labels  # so that each start is found below
        start = self._places(labels)
        stream, at = streams(self._seed, "random walk", labels), start
        for hop in range(self._length):
            leaves = np.where(uniform(stream, 2 * hop) < self._restart, start, at)
            path[:, hop + 1] = self._drawn(leaves, uniform(stream, 2 * hop + 1))
            at = self._places(path[:, hop + 1])
        return _counted(labels.astype(np.int32), path)

    def _drawn(self, places: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """A neighbour of each place: the one in whose part of the row's counts the draw falls."""
        first = self._starts[places]
        into = (draws * (self._starts[places + 1] - first)).astype(np.int64)
        drawn: np.ndarray = self._graph.neighbours[np.searchsorted(self._ends, first + into, side="right")]
        return drawn

    def _places(self, labels: np.ndarray) -> np.ndarray:
        """The rows of labels."""
        outside = labels >= len(self._place)
        places = np.where(outside, -1, self._place[np.where(outside, 0, labels)])
        if (places < 0).any():
            raise InputError(
                f"label {labels[int(np.argmax(places < 0))]} has no row in the graph: walk over the whole graph"
            )
        return places


def _counted(labels: np.ndarray, path: np.ndarray) -> Neighbours:
    path.sort(axis=1)
    first = np.ones(path.shape, bool)
    first[:, 1:] = path[:, 1:] != path[:, :-1]
    begins = np.flatnonzero(first)
    counts = np.diff(np.append(begins, path.size))
    indptr = np.concatenate([[0], np.cumsum(first.sum(axis=1), dtype=np.int64)])
    found = Neighbours(labels, indptr, path.ravel()[begins], counts, np.zeros(len(labels), np.int64))
    own = np.maximum(counts[found.itself] - 1, 1)
    counts = np.minimum(counts, np.repeat(own, np.diff(indptr)))
    return Neighbours(labels, indptr, found.neighbours, counts, own)
