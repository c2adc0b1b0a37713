"""Which rows a node with too many of them trains on (`train.max_rows`). Decides row by row, from a hash of seed, node
and row and from counts alone, so that a row can be left out before it travels and the choice depends on nothing else:
half of the budget is kept for equal shares of all children, so that rare ones keep their positives, the rest goes to
all rows alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xmcspark.sparse.csr import Csr
from xmcspark.sparse.id_hash import bits, mixed

_SPACE = 2.0**64  # of the hashes
_SIGMAS = 6.0  # by which the number of rows expected stays below the limit, so that chance does not exceed it


@dataclass(frozen=True)
class RowCap:
    """What one node takes: rows whose hash is below `rest`, or below `of_child` of one of their children."""

    rest: int
    of_child: np.ndarray  # uint64[children]
    positives: np.ndarray  # int64[children]: rows of each child before the cut

    def keeps(self, hashes: np.ndarray, Y: Csr) -> np.ndarray:
        """bool[rows]: which rows the node takes. Y: rows x its children."""
        limit = np.full(Y.shape[0], self.rest, np.uint64)
        filled = np.flatnonzero(np.diff(Y.indptr))
        if len(filled):
            best = np.maximum.reduceat(self.of_child[Y.indices], Y.indptr[filled])
            limit[filled] = np.maximum(limit[filled], best)
        return np.asarray(hashes < limit)


def row_cap(rows: int, positives: np.ndarray, max_rows: int) -> RowCap | None:
    """For a node with so many rows, and so many of each child among them; None if it may take them all."""
    if rows <= max_rows:
        return None
    budget = max(1.0, max_rows - _SIGMAS * math.sqrt(max_rows))
    counts = np.maximum(np.asarray(positives, np.int64), 1)
    shares = np.minimum(1.0, budget / 2 / len(counts) / counts)
    rest = _largest_share(rows, counts, shares, budget)
    return RowCap(_bound(rest), np.array([_bound(share) for share in shares], np.uint64), np.array(positives))


def row_hashes(node_seed: int, row_keys: np.ndarray) -> np.ndarray:
    """uint64: the place of each row in the node's random order."""
    return mixed(mixed(bits(row_keys)) ^ np.uint64(node_seed))


def _largest_share(rows: int, counts: np.ndarray, shares: np.ndarray, budget: float) -> float:
    """The largest share of all rows that, with the shares of the children, stays within the budget. At half of the
    budget it does; what it costs beyond that is convex, so halving the interval finds the end."""

    def expected(share: float) -> float:
        return rows * share + math.fsum((counts * np.maximum(0.0, shares - share)).tolist())

    low, high = budget / 2 / rows, budget / rows
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) <= budget else (low, middle)
    return low


def _bound(share: float) -> int:
    return min(2**64 - 1, int(share * _SPACE))
