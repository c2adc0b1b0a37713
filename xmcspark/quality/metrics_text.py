"""Metrics for the terminal: the four that are compared most, a column for each k."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

_SHOWN = ("P", "R", "nDCG", "PSP")


class _Row(Protocol):
    """A `MetricRow`, or a row of the table `metrics`."""

    @property
    def metric(self) -> str: ...
    @property
    def k(self) -> int: ...
    @property
    def bin(self) -> str: ...
    @property
    def value(self) -> float: ...


def metrics_text(rows: Iterable[_Row]) -> str:
    """P, R, nDCG and PSP over all labels in percent, one line each; of one method and split."""
    values = {(row.metric, row.k): row.value for row in rows if row.bin == "all" and row.metric in _SHOWN}
    if not values:
        return "no metrics: there was nothing to evaluate"
    ks = sorted({k for _, k in values})
    lines = [f"{'%':<5}" + "".join(f"{'@' + str(k):>8}" for k in ks)]
    for metric in _SHOWN:
        if any((metric, k) in values for k in ks):
            cells = "".join(_cell(values.get((metric, k))) for k in ks)
            lines.append(f"{metric:<5}{cells}")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    known = value is not None and value == value  # NaN: nothing to average over
    return f"{100 * value:>8.2f}" if known and value is not None else f"{'-':>8}"
