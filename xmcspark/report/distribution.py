"""How numbers of 0 and more are distributed, by powers of two: 0, 1, 2-3, 4-7, ... Small whatever is counted, so that a
run keeps it and the next one can say what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Distribution:
    """Counts by bin. A number's bin is its length in bits: 0 for 0, 1 for 1, 2 for 2 and 3, and so on."""

    counts: tuple[int, ...]  # by bin, the last not 0
    total: int  # sum of all numbers
    largest: int

    @staticmethod
    def of(parts: Iterable[tuple[int, int, int, int]]) -> Distribution:
        """From (bin, how many, their sum, the largest), bins in any order and repeated at will."""
        counts: dict[int, int] = {}
        total = largest = 0
        for place, count, part, most in parts:
            counts[place] = counts.get(place, 0) + count
            total, largest = total + part, max(largest, most)
        used = max((place for place, count in counts.items() if count), default=-1) + 1
        return Distribution(tuple(counts.get(place, 0) for place in range(used)), total, largest)

    @property
    def size(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        return self.total / self.size if self.size else 0.0

    @property
    def shares(self) -> list[float]:
        return [count / self.size for count in self.counts]

    @property
    def first(self) -> int:
        """The first bin that is not empty."""
        return next((place for place, count in enumerate(self.counts) if count), 0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_json(document: Mapping[str, Any]) -> Distribution:
        return Distribution(
            tuple(int(count) for count in document["counts"]),
            int(document["total"]),
            int(document["largest"]),
        )


def bin_name(place: int) -> str:
    """The numbers of a bin."""
    if place < 2:
        return str(place)
    return f"{1 << (place - 1):,}–{(1 << place) - 1:,}"


def bin_start(place: int) -> str:
    """The smallest number of a bin, short enough for an axis."""
    return _short(1 << (place - 1)) if place else "0"


def moved_share(before: Distribution, now: Distribution) -> float:
    """The share of either that would have to change bins to make the two equal: 0 the same, 1 nothing in common."""
    bins = max(len(before.counts), len(now.counts))
    old, new = ([*d.shares, *[0.0] * (bins - len(d.counts))] for d in (before, now))
    return sum(abs(a - b) for a, b in zip(old, new, strict=True)) / 2


def _short(number: int) -> str:
    """1,024 and more in k, M, G of 1,024: bins are powers of two."""
    for unit in ("", "k", "M", "G"):
        if number < 1024:
            return f"{number}{unit}"
        number //= 1024
    return f"{number}T"
