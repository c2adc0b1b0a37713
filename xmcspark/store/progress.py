"""Shows that a stage is getting on: tasks done and time left, redrawn on a terminal, a line now and then in a log.
A stage that knows better what it does (labels trained, say) tells it with `tell`."""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType

from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_DRAW_SECONDS = 1.0
_LOG_SECONDS = 30.0
_said: dict[str, str] = {}  # by stage: what it last told of itself


def tell(stage: str, text: str) -> None:
    """A few words on how far a stage is, shown with its progress: "12 of 66 sub-trees, 31,000 labels"."""
    _said[stage] = text


class Progress:
    """Watches the jobs of one stage while it runs. Gives them its name in the Spark UI."""

    def __init__(self, spark: SparkSession, stage: str) -> None:
        self._context, self._stage = spark.sparkContext, stage
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._started = time.monotonic()

    def __enter__(self) -> Progress:
        self._context.setJobGroup(self._stage, self._stage)
        _said.pop(self._stage, None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _watch(self) -> None:
        logged = self._started
        while not self._stop.wait(_DRAW_SECONDS):
            line = self._line()
            if line is None:
                continue
            if sys.stderr.isatty():
                print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() - logged >= _LOG_SECONDS:
                logged = time.monotonic()
                log.info("%s", line)

    def _line(self) -> str | None:
        """Of the job at work: its tasks, and the seconds it still needs at this pace."""
        try:
            done, total = self._tasks()
        except Exception:  # the context may be stopping: progress must never be what fails
            return None
        parts = [self._stage]
        if total:
            parts.append(f"{done}/{total} tasks")
        if text := _said.get(self._stage):
            parts.append(text)
        parts.append(f"{time.monotonic() - self._started:.0f} s so far")
        return ": ".join([parts[0], ", ".join(parts[1:])])

    def _tasks(self) -> tuple[int, int]:
        tracker = self._context.statusTracker()
        done = total = 0
        for stage_id in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage_id)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total
