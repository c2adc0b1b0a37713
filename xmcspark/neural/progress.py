"""How far fine-tuning is: steps, loss, texts a second, time left. Decides how often that is told."""

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
        minutes, seconds = divmod(round(self.seconds_left), 60)
        left = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
        return (
            f"{self.task}: step {self.step} of {self.steps}, loss {self.loss:.4g}, "
            f"{self.texts_per_second:.0f} texts/s, {left} left"
        )


Report = Callable[[Progress], None]


class Meter:
    """Adds up steps as they are done, and tells: a report every second or, where nobody takes one, a line in the log
    every half minute; and a line at the end."""

    def __init__(self, task: str, step: int, steps: int, report: Report | None, quiet: bool = False) -> None:
        self._task, self._steps, self._report, self._quiet = task, steps, report, quiet
        self._first_step, self._began = step, time.monotonic()
        self._reported = self._logged = self._began
        self._texts, self._losses, self._counted = 0, 0.0, 0

    def step_done(self, step: int, loss: float, texts: int) -> None:
        """`step` steps are done; the last had this loss and so many texts."""
        self._texts, self._losses, self._counted = self._texts + texts, self._losses + loss, self._counted + 1
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS and step < self._steps:
            return
        self._reported = now
        seconds = max(now - self._began, 1e-9)
        left = (self._steps - step) * seconds / (step - self._first_step)
        progress = Progress(
            self._task, step, self._steps, self._losses / self._counted, self._texts / seconds, left
        )
        if self._report is not None:
            self._report(progress)
        if now - self._logged >= _LOG_SECONDS or step == self._steps:
            if not self._quiet and (self._report is None or step == self._steps):
                log.info("%s", progress)
            self._logged, self._losses, self._counted = now, 0.0, 0
