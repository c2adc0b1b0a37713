"""When what was begun is kept elsewhere, where a driver that is lost does not take it along: all of it is copied, so
after some checkpoints only."""

from __future__ import annotations

import time
from collections.abc import Callable

# Of training between copies: a little less than between checkpoints by the clock, each of which is to be copied.
_SECONDS = 540.0


class Keeper:
    """Calls `keep`, which copies all that going on needs; None: there is no need to."""

    def __init__(self, keep: Callable[[], None] | None = None, seconds: float = _SECONDS) -> None:
        self._keep, self._seconds = keep, seconds
        self._last = time.monotonic()

    def keep(self) -> None:
        """Now: a level or a task begins."""
        self._last = time.monotonic()
        if self._keep is not None:
            self._keep()

    def keep_if_due(self) -> None:
        """A checkpoint was written."""
        if time.monotonic() - self._last >= self._seconds:
            self.keep()
