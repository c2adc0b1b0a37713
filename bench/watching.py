"""Something that is looked at again and again while other work goes on."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Watching(ABC):
    """Looks, in a thread of its own, at once, then every so many seconds while it is entered, and once more as it is
    left: however short the work was, and however long it held the interpreter, its end is seen."""

    def __init__(self, every_s: float) -> None:
        self._every_s, self._stop = every_s, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def look(self) -> None: ...

    def _watch(self) -> None:
        self.look()
        while not self._stop.wait(self._every_s):
            self.look()
        self.look()
