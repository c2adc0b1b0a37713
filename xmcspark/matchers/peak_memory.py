"""Peak resident memory of this process since a moment, where the system can say (Linux); else since it started."""

from __future__ import annotations

import resource


class PeakMemory:
    def __init__(self) -> None:
        self._since = _forget_peak()

    def bytes(self) -> int:
        if self._since:
            try:
                with open("/proc/self/status", encoding="ascii") as lines:
                    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
            except (OSError, StopIteration, ValueError):
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _forget_peak() -> bool:
    """Whether the system will count from now on (proc(5), clear_refs)."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as stream:
            stream.write("5")
    except OSError:
        return False
    return True
