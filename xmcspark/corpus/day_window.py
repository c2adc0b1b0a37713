"""The days a run learns from and is evaluated on. Decides where training ends and evaluation begins, and refuses a
window in which either has no data, before anything is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

from xmcspark.corpus.corpus_settings import CorpusSettings
from xmcspark.errors import InputError


@dataclass(frozen=True)
class DayWindow:
    """Days first..last, of which those from test_from on are for evaluation (None: no day is)."""

    first: date
    last: date
    test_from: date | None

    @property
    def train_last(self) -> date:
        return self.last if self.test_from is None else self.test_from - timedelta(days=1)


def day_window(settings: CorpusSettings, run_date: str | None, days: Collection[date]) -> DayWindow:
    """The window that ends at run.date, or at the latest of the ingested `days`."""
    if not days:
        raise InputError("no day of logs has been ingested: run the ingest job first, and see input.logs")
    last = max(days) if run_date is None else date.fromisoformat(run_date)
    first = last - timedelta(days=settings.window_days - 1)
    test_from = last - timedelta(days=settings.test_days - 1) if settings.test_days else None
    return DayWindow(first, last, test_from)


def check_data(window: DayWindow, filled: Collection[date], days: Collection[date]) -> None:
    """InputError if there is nothing to train or evaluate on. `filled`: days of the window that have interactions;
    `days`: all ingested ones."""
    there = f"{len(days)} days from {min(days)} to {max(days)} are ingested" if days else "no day is ingested"
    if not any(window.first <= day <= window.train_last for day in filled):
        raise InputError(
            f"no logs to train on from {window.first} to {window.train_last}: {there}; change --date (run.date) or "
            "corpus.window_days, or ingest those days"
        )
    if window.test_from is not None and not any(window.test_from <= day <= window.last for day in filled):
        raise InputError(
            f"no logs to evaluate on from {window.test_from} to {window.last}: {there}; change --date (run.date) or "
            "corpus.test_days (0 evaluates nothing), or ingest those days"
        )
