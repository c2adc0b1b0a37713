"""Which metrics are told first: precision of the best answer, the order of the first ones, what is found at all, and
how the rare labels fare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xmcspark.quality.metric_sums import MetricRow

_WANTED = (("P", 1), ("nDCG", 5), ("R", 10), ("PSP", 5), ("coverage", 5), ("macro-F1", 5))


def headlines(rows: Iterable[MetricRow]) -> list[tuple[str, int]]:
    """(metric, k) of those that were evaluated, at the nearest k; the most telling first."""
    ks: dict[str, set[int]] = {}
    for row in rows:
        ks.setdefault(row.metric, set()).add(row.k)
    return [(metric, nearest(sorted(ks[metric]), k)) for metric, k in _WANTED if metric in ks]


def nearest(ks: Sequence[int], k: int) -> int:
    """The closest of them, the larger of two."""
    return min(ks, key=lambda one: (abs(one - k), -one))
