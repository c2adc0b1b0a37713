"""Two sets of predictions of the same instances, compared: for each metric the difference, its 95% interval and a
p-value. Instances are resampled, and weigh the same for both sides in each replicate, so the test is paired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.bootstrap import COMPARED_REPLICATES, LEAST_REPLICATES, interval, p_value
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_sums import MetricRow
from xmcspark.quality.metrics import evaluated
from xmcspark.quality.replicates import Replicates


class ComparedRow(NamedTuple):
    """One metric of both; NaN where it is not defined."""

    metric: str
    k: int
    bin: str
    value: float
    other: float
    difference: float  # value - other
    low: float  # 95% interval of the difference
    high: float
    p: float  # two-sided, of no difference; at most 0.05 just when the interval leaves 0 out
    n: int  # rows, labels or positives


def compare(
    predictions: Predictions,
    other: Predictions,
    Y_test: Any,
    profile: LabelProfile | None = None,
    ks: Sequence[int] = (1, 3, 5, 10),
    metrics: Iterable[str] | None = None,
    *,
    bootstrap: int = COMPARED_REPLICATES,
    row_keys: np.ndarray | None = None,
) -> list[ComparedRow]:
    """Two predictions for the same rows, by the metrics of `evaluate`, whose arguments these are."""
    check_replicates(bootstrap)
    chosen = None if metrics is None else tuple(metrics)
    sides = (
        evaluated(some, Y_test, profile, ks, chosen, bootstrap=bootstrap, row_keys=row_keys)
        for some in (predictions, other)
    )
    return compared(*sides)


def check_replicates(count: int) -> None:
    if count < LEAST_REPLICATES:
        raise InputError(
            f"a comparison with {count} replicates: at least {LEAST_REPLICATES} replicates are needed"
        )


def compared(
    ours: tuple[list[MetricRow], Replicates], theirs: tuple[list[MetricRow], Replicates]
) -> list[ComparedRow]:
    """What follows from the metrics and replicates of both sides."""
    rows = []
    for (j, b), mine, other in zip(_places(ours[0]), ours[0], theirs[0], strict=True):
        replicates = ours[1].of(mine.metric, j, b) - theirs[1].of(mine.metric, j, b)
        known = mine.value == mine.value and other.value == other.value and mine.n > 1
        low, high = interval(replicates) if known else (np.nan, np.nan)
        p = p_value(replicates) if known else np.nan
        difference = mine.value - other.value
        rows.append(ComparedRow(*mine[:4], other.value, difference, low, high, p, mine.n))
    return rows


def _places(rows: list[MetricRow]) -> list[tuple[int, int]]:
    """(place of its k, place of its bin) of each row."""
    ks, bins = (list(dict.fromkeys(values)) for values in ([r.k for r in rows], [r.bin for r in rows]))
    return [(ks.index(row.k), bins.index(row.bin)) for row in rows]


def comparison_text(rows: Iterable[ComparedRow], name: str, other: str) -> str:
    """All metrics over all labels, in percent; a star where the difference is more than chance."""
    lines = [f"{'%':<12}{'run':>8}{'other':>8}{'difference':>12}{'95% interval':>20}{'p':>9}"]
    lines += [_line(row) for row in rows if row.bin == "all"]
    return "\n".join([*lines, f"run {name}, other {other}; * p at most 0.05"])


def _line(row: ComparedRow) -> str:
    label = f"{row.metric}@{row.k}"
    if row.value != row.value or row.other != row.other:
        return f"{label:<12}{'-':>8}{'-':>8}"
    between = f"{100 * row.low:+.2f} .. {100 * row.high:+.2f}"
    star = " *" if row.p <= 0.05 else ""
    values = f"{100 * row.value:>8.2f}{100 * row.other:>8.2f}{100 * row.difference:>+12.2f}"
    return f"{label:<12}{values}{between:>20}{row.p:>9.3f}{star}"
