"""Which grams become features, and their numbers, when the grams lie in pieces in many places: the same choice as
`xmcspark.text.vocabulary.kept_grams` makes in one, from a histogram of each piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xmcspark.text.gram_runs import GramRun


@dataclass(frozen=True)
class Piece:
    """What has to be known of consecutive grams of one vectorizer to choose among all: how many there are of how many
    occurrences."""

    vectorizer: int
    grams: int
    occurrences: np.ndarray  # distinct numbers of occurrences; left out if nothing limits the vectorizer
    counts: np.ndarray  # grams that have so many


@dataclass(frozen=True)
class Choice:
    """The features of one piece: all grams with more occurrences than `above`, and the first `ties` of those with as
    many."""

    first: int  # feature of the first gram chosen
    above: int
    ties: int
    features: int  # chosen in all

    def of(self, run: GramRun) -> GramRun:
        """The chosen grams, in order."""
        if self.features == len(run):
            return run
        kept = run.occurrences > self.above
        kept[np.flatnonzero(run.occurrences == self.above)[: self.ties]] = True
        return run.where(kept)


def histogram(run: GramRun) -> tuple[np.ndarray, np.ndarray]:
    """(numbers of occurrences, grams with so many)."""
    values, counts = np.unique(run.occurrences, return_counts=True)
    return values, counts.astype(np.int64)


def packed_histogram(values: np.ndarray, counts: np.ndarray) -> bytes:
    return np.concatenate([values, counts]).astype("<i8").tobytes()


def unpacked_histogram(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.frombuffer(data, "<i8").reshape(2, -1)
    return values, counts


def choose(pieces: Sequence[Piece], limits: Sequence[int | None], first: int = 0) -> list[Choice]:
    """For pieces in the order of vectorizer, then gram: the choice of each. At most limits[v] grams of vectorizer v
    become features, the most frequent; numbers start at `first`."""
    choices = []
    cuts = {v: _cut([p for p in pieces if p.vectorizer == v], limit) for v, limit in enumerate(limits)}
    for piece in pieces:
        cut = cuts[piece.vectorizer]
        if cut is None:
            choice = Choice(first, 0, 0, piece.grams)
        else:
            above, ties = cut
            more = int(piece.counts[piece.occurrences > above].sum())
            taken = min(ties, int(piece.counts[piece.occurrences == above].sum()))
            choice = Choice(first, above, taken, more + taken)
            cuts[piece.vectorizer] = above, ties - taken
        choices.append(choice)
        first += choice.features
    return choices


def _cut(pieces: Sequence[Piece], limit: int | None) -> tuple[int, int] | None:
    """(number of occurrences above which all grams are kept, how many with just as many are kept); None: all."""
    if limit is None or sum(piece.grams for piece in pieces) <= limit:
        return None
    values, place = np.unique(np.concatenate([piece.occurrences for piece in pieces]), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, place, np.concatenate([piece.counts for piece in pieces]))
    falling = np.cumsum(counts[::-1])
    at = int(np.searchsorted(falling, limit))  # the first value with which the limit is reached
    return int(values[::-1][at]), limit - (int(falling[at - 1]) if at else 0)
