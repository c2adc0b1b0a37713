"""Texts of like length together, so that little is padded: as batches, whose order is random and a function of seed and
epoch alone, or, of a batch that is given, as the forward passes it is cut into."""

from __future__ import annotations

import numpy as np

# Rows are sorted by length within random groups of this many batches: nearly all padding is gone, and which rows share
# a batch still differs from epoch to epoch.
_GROUP = 64


def length_batches(lengths: np.ndarray, size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Row numbers (int64) of each batch: every row once, `size` rows a batch but for one that may be smaller, rows of a
    batch from short to long."""
    rng = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), size * _GROUP):
        group = order[start : start + size * _GROUP]
        group = group[np.argsort(lengths[group], kind="stable")]
        batches += [group[at : at + size] for at in range(0, len(group), size)]
    return [batches[place] for place in rng.permutation(len(batches))]


def forward_passes(lengths: np.ndarray, most: int, overhead: int) -> list[np.ndarray]:
    """Places (int64) of each pass over a batch, from short texts to long: at most `most` texts each, and cut where
    padding and passes cost least in all, if a pass costs as much by itself as `overhead` tokens."""
    order = np.argsort(lengths, kind="stable")
    longest = np.asarray(lengths, np.int64)[order]
    costs = np.zeros(len(order) + 1, np.int64)  # of the cheapest passes over the texts before a place
    begins = np.zeros(len(order) + 1, np.int64)  # of the last of them
    for end in range(1, len(costs)):
        first = max(0, end - most)
        ways = costs[first:end] + (end - np.arange(first, end)) * longest[end - 1] + overhead
        begins[end] = first + np.argmin(ways)
        costs[end] = ways.min()
    passes = []
    end = len(order)
    while end > 0:
        passes.append(order[begins[end] : end])
        end = int(begins[end])
    return passes[::-1]


class EpochBatches:
    """Batches of one epoch after the other, by the number of a step. Holds one epoch at a time."""

    def __init__(self, lengths: np.ndarray, size: int, seed: int, rows: np.ndarray | None = None) -> None:
        """`rows`: only these are visited (lengths are of all rows); None: all."""
        self._rows = np.arange(len(lengths)) if rows is None else np.asarray(rows, np.int64)
        self._lengths, self._size, self._seed = np.asarray(lengths)[self._rows], size, seed
        self.per_epoch = -(-len(self._rows) // size)  # steps
        self._epoch, self._batches = -1, list[np.ndarray]()

    def batch(self, step: int) -> np.ndarray:
        """The rows of a step, from 0 on: any step at any time, the same rows."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._batches = length_batches(self._lengths, self._size, self._seed, epoch)
            self._epoch = epoch
        return np.asarray(self._rows[self._batches[place]])
