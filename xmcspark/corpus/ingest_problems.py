"""What a person is told when logs cannot be ingested: which days, how many records, why, where to look, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

_SHOWN = 5


class Counted(Protocol):
    """Records of a day, usable or not."""

    bad: dict[str, int]
    example: str

    @property
    def quarantined(self) -> int: ...

    @property
    def records(self) -> int: ...


@dataclass
class BadDays:
    """Days with more unusable records than is allowed."""

    allowed: float
    uri: str  # of the batch that holds the records
    days: list[date | None] = field(default_factory=list)
    bad: int = 0
    records: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    example: str = ""

    def add(self, day: date | None, found: Counted) -> None:
        self.days.append(day)
        self.bad, self.records = self.bad + found.quarantined, self.records + found.records
        self.example = self.example or found.example
        for reason, count in found.bad.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def problem(self, columns: Sequence[str]) -> str:
        top = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))[:3]
        where = _named([day for day in self.days if day is not None])
        return (
            f"{where + ': ' if where else ''}{self.bad:,} of {self.records:,} records ({self.bad / self.records:.1%}) "
            f"cannot be used, more than ingest.max_bad_ratio ({self.allowed:g}): "
            f"{', '.join(f'{reason} ({count:,})' for reason, count in top)}; for example in {self.example}. Nothing of "
            f"this was made visible; the records are in {self.uri}/kind=quarantine. Correct the logs, or "
            f"ingest.columns (the logs have {', '.join(columns) or 'no columns'}), or raise ingest.max_bad_ratio"
        )


def empty_days_problem(gaps: Sequence[date], logs: str) -> str:
    return (
        f"no records for {_named(gaps)} in {logs}: wait for the logs, give another --date or corpus.window_days, or "
        "set ingest.empty_day to skip to go on without"
    )


def emptied_days_problem(lost: Mapping[date, int], files: Sequence[str]) -> str:
    """`lost`: days, and the records ingested of them before."""
    return (
        f"{_named(sorted(lost))}: there are no records any more in the logs, such as {files[0]}, of which "
        f"{sum(lost.values()):,} were ingested before; these stay what is seen. Write the logs again; or take their "
        "files away to keep what was ingested; or set ingest.empty_day to skip to have the days without records"
    )


def no_counts_problem(example: str, columns: Sequence[str]) -> str:
    return (
        f"not one impression, click or purchase in the logs, such as {example}: set ingest.columns.clicks and its like "
        f"to the names of the columns (the logs have {', '.join(columns)}), or ingest.click_per_record to true if each "
        "record is a click"
    )


def _named(days: Sequence[date]) -> str:
    names = ", ".join(day.isoformat() for day in days[:_SHOWN])
    return names if len(days) <= _SHOWN else f"{names} and {len(days) - _SHOWN} more days"
