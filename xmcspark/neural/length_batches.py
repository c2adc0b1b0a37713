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
    """Places (int64) of each pass over a batch, from short texts to long: cut where padding and passes cost least in
    all, if a pass costs as much by itself as `overhead` tokens; at most `most` texts each. The cheapest cuts lie where
    lengths change, so the cheapest way to the end of each length is found, one after the other."""
    order = np.argsort(lengths, kind="stable")
    longest, counts = np.unique(lengths, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])  # texts up to each length
    costs = np.zeros(len(ends), np.int64)
    begins = np.zeros(len(ends), np.int64)  # of the last pass on the cheapest way
    for end in range(1, len(ends)):
        ways = costs[:end] + (ends[end] - ends[:end]) * longest[end - 1] + overhead
        begins[end] = np.argmin(ways)
        costs[end] = ways[begins[end]]
    passes: list[np.ndarray] = []
    end = len(ends) - 1
    while end > 0:
        texts = order[ends[begins[end]] : ends[end]]
        passes[:0] = np.array_split(texts, -(-len(texts) // most))
        end = int(begins[end])
    return passes


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
