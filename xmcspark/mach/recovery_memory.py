"""What recovering labels takes in the memory of a process, by estimate, and of how many labels at a time it fits.
Unlike the repetitions, which are mapped and shared, each process makes the tables of recovery for itself."""

from __future__ import annotations

from xmcspark.mach.settings import MachSettings

_LABEL = 8  # bytes of a label beside its buckets: its number, and whether it is live
_BLOCK = 1 << 20  # labels that fast recovery has an index of buckets for
_FEWEST = 1 << 16  # labels at a time: with fewer, tables are made for longer than they are used


def recovery_bytes(settings: MachSettings, labels: int, buckets: int, repetitions: int) -> int:
    """Of so many labels at once (mach/recovery.py says what is held)."""
    if settings.recovery == "exact":
        return labels * (_LABEL + repetitions * (2 if buckets <= 1 << 16 else 4))
    blocks = -(-labels // _BLOCK)
    return labels * (_LABEL + 4 * repetitions) + 4 * repetitions * blocks * (buckets + 1)


def labels_that_fit(settings: MachSettings, labels: int, buckets: int, repetitions: int, limit: float) -> int:
    """The most labels at a time that take no more than `limit` bytes, and at least some ten thousand; 0: all."""
    needed = recovery_bytes(settings, labels, buckets, repetitions)
    if needed <= limit:
        return 0
    parts = max(2, -(-needed // max(1, int(limit))))
    at_once = max(_FEWEST, -(-labels // parts))
    return 0 if at_once >= labels else at_once
