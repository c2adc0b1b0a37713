"""How large steps are: rates rise while training warms up, then fall to 0, in a line or along a cosine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xmcspark.errors import ConfigError

SCHEDULES = ("linear", "cosine")


@dataclass(frozen=True)
class Rates:
    """The largest step of each module and table of a task (None: settings.head_learning_rate for all), and how rates
    fall after warm-up. The encoder's largest step is settings.learning_rate."""

    modules: Sequence[float] | None = None
    tables: Sequence[float] | None = None
    schedule: str = "linear"

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ConfigError([f"schedule is {self.schedule!r}: choose one of {', '.join(SCHEDULES)}"])


def share_of_rate(step: int, steps: int, warmup: float, schedule: str = "linear") -> float:
    """What of the largest rate step `step` (from 0) of `steps` uses. `warmup`: share of the steps in which it rises.
    The first step already moves, and the last one still does."""
    rising = round(steps * warmup)
    if step < rising:
        return (step + 1) / rising
    left = (steps - step) / max(1, steps - rising)
    return left if schedule == "linear" else 0.5 * (1 - math.cos(math.pi * left))
