"""Seconds of work that may be stopped and gone on with, over all attempts at it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class SpentSeconds:
    """Kept in a file, as of the last `keep`; what was not kept of an attempt that was stopped is not counted."""

    def __init__(self, file: Path) -> None:
        self._file = file
        before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self._before, self._began = float(before.get("seconds", 0.0)), time.perf_counter()

    def now(self) -> float:
        return self._before + time.perf_counter() - self._began

    def leave_out(self, seconds: float) -> None:
        """Of those since it began: of something else."""
        self._began += seconds

    def keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({"seconds": self.now()}))
        partial.replace(self._file)
