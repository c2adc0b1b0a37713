"""How far fine-tuning and embedding are: steps, loss, texts a second, time left. Decides how often that is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)

_REPORT_SECONDS = 1.0
_LOG_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """Where a task is. `str()` of it is for people."""

    task: str
    step: int  # done
    steps: int
    loss: float  # mean since the last half minute began
    texts_per_second: float
    seconds_left: float

    def __str__(self) -> str:
        return (
            f"{self.task}: step {self.step} of {self.steps}, loss {self.loss:.4g}, "
            f"{self.texts_per_second:.0f} texts/s, {_minutes(self.seconds_left)} left"
        )


Report = Callable[[Progress], None]


class Meter:
    """Adds up steps as they are done, and tells: a report every second or, where nobody takes one, a line in the log
    every half minute; and a line at the end."""

    def __init__(self, task: str, steps: int, report: Report | None, quiet: bool = False) -> None:
        self._task, self._steps, self._report, self._quiet = task, steps, report, quiet
        self._pace = _Pace()
        self._reported = self._logged = self._pace.began
        self._losses, self._counted = 0.0, 0

    def step_done(self, step: int, loss: float, texts: int) -> None:
        """`step` steps are done; the last had this loss and so many texts."""
        now = time.monotonic()
        self._pace.add(texts, now)
        self._losses, self._counted = self._losses + loss, self._counted + 1
        if now - self._reported < _REPORT_SECONDS and step < self._steps:
            return
        self._reported = now
        texts_per_second, seconds_a_step = self._pace.found()
        left = (self._steps - step) * seconds_a_step
        progress = Progress(
            self._task, step, self._steps, self._losses / self._counted, texts_per_second, left
        )
        if self._report is not None:
            self._report(progress)
        if now - self._logged >= _LOG_SECONDS or step == self._steps:
            if not self._quiet and (self._report is None or step == self._steps):
                log.info("%s", progress)
            self._logged, self._losses, self._counted = now, 0.0, 0


class _Pace:
    """How fast steps go. The first may wait for clusters and hard negatives, longer than for hundreds of steps: it
    counts only until there is another."""

    def __init__(self) -> None:
        self.began = self._last = time.monotonic()
        self._first, self._steps, self._texts = True, 0, 0

    def add(self, texts: int, now: float) -> None:
        """Another step is done."""
        if self._first and self._steps == 1:
            self.began, self._first, self._steps, self._texts = self._last, False, 0, 0
        self._last, self._steps, self._texts = now, self._steps + 1, self._texts + texts

    def found(self) -> tuple[float, float]:
        """Texts a second, and seconds a step."""
        seconds = max(self._last - self.began, 1e-9)
        return self._texts / seconds, seconds / self._steps


class EmbeddingProgress:
    """Tells in the log, every half minute, how many of the texts to embed are done."""

    def __init__(self, texts: int, tokens: int, quiet: bool = False) -> None:
        """`tokens`: of all texts, which is what time follows: they come by length."""
        self._texts, self._tokens, self._quiet = texts, tokens, quiet
        self._done = self._tokens_done = 0
        self._began = self._logged = time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        """So many more are done."""
        self._done, self._tokens_done = self._done + texts, self._tokens_done + tokens
        now = time.monotonic()
        if self._quiet or now - self._logged < _LOG_SECONDS:
            return
        self._logged = now
        seconds = now - self._began
        left = seconds * (self._tokens - self._tokens_done) / max(self._tokens_done, 1)
        rate = self._done / seconds
        how_far = f"{self._done:,} of {self._texts:,} texts, {rate:.0f} texts/s, {_minutes(left)} left"
        log.info("embedding: %s", how_far)


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
