"""Which training units run together: waves, each finished for itself, and the tasks of a wave. Waves follow from the
units alone, so that a run goes on where it stopped on any cluster; tasks follow from the slots there are as well.
Loads are nanoseconds of one core, by estimate (tree/units.py)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xmcspark.matchers.train_unit import GROUP
from xmcspark.tree.units import Unit

TASKS_PER_SLOT = 8  # of a wave: estimates are wrong by some tens of percent, small tasks even that out
SMALLEST_TASK = 1_000_000_000  # load: a Python task costs 0.1 to 0.4 s of its own
_WAVE_LOAD, _MOST_WAVES = 600_000_000_000, 4  # unless told: a wave is worth ten minutes of one core


@dataclass(frozen=True)
class Work:
    """A unit of a member, or one of several pieces of it: every `pieces`-th group of the children of its only node."""

    member: int
    unit: Unit
    piece: int = 0
    pieces: int = 1

    @property
    def load(self) -> int:
        return -(-self.unit.load // self.pieces)


@dataclass(frozen=True)
class Task:
    works: tuple[Work, ...]

    @property
    def load(self) -> int:
        return sum(work.load for work in self.works)


def dealt(loads: Sequence[int], hands: int) -> list[int]:
    """The hand that each load goes to: heaviest first, to the one that has least so far (LPT)."""
    free = [(0, hand) for hand in range(hands)]
    to = [0] * len(loads)
    for number in sorted(range(len(loads)), key=lambda i: (-loads[i], i)):
        held, hand = heapq.heappop(free)
        to[number] = hand
        heapq.heappush(free, (held + loads[number], hand))
    return to


def plan_waves(works: Sequence[Work], waves: int) -> list[list[Work]]:
    """The units of each wave; waves of about the same load, none empty."""
    to = dealt([work.load for work in works], min(waves, len(works)))
    return [
        [work for work, wave in zip(works, to, strict=True) if wave == number] for number in sorted(set(to))
    ]


def plan_steps(steps: Sequence[Sequence[Work]], waves: int | None) -> list[list[list[Work]]]:
    """The waves of each of several steps, where one must end before the next begins: about `waves` in all (None: as
    many as the work is worth), as many for a step as is its share of the load, and at least one."""
    total = max(1, sum(work.load for step in steps for work in step))
    if waves is None:
        waves = min(_MOST_WAVES, -(-total // _WAVE_LOAD))
    shares = [sum(work.load for work in step) * waves / total for step in steps]
    return [plan_waves(step, max(1, round(share))) for step, share in zip(steps, shares, strict=True)]


def plan_tasks(works: Sequence[Work], slots: int) -> list[Task]:
    """The tasks of a wave, heaviest first: heavy units alone, or in pieces where one would outlast all others; light
    ones together."""
    total = sum(work.load for work in works)
    size = min(max(total // (TASKS_PER_SLOT * slots), SMALLEST_TASK), max(1, total // slots))
    parts = [piece for work in works for piece in _pieces(work, size, total // slots)]
    heavy = [Task((part,)) for part in parts if part.load >= size]
    light = [part for part in parts if part.load < size]
    together = -(-sum(part.load for part in light) // size)
    to = dealt([part.load for part in light], together) if light else []
    grouped = [
        tuple(part for part, task in zip(light, to, strict=True) if task == n) for n in range(together)
    ]
    tasks = heavy + [Task(group) for group in grouped if group]
    return sorted(tasks, key=lambda task: (-task.load, _name(task.works[0])))


def slot_balance(waves: Sequence[Sequence[Task]], slots: int) -> float:
    """Load of the busiest slot over the mean, if each task goes to the first slot that is free."""
    busy = [0] * slots
    for task in (task for wave in waves for task in wave):
        heapq.heapreplace(busy, busy[0] + task.load)
    return max(busy) * slots / max(1, sum(busy))


def in_runs(sizes: Sequence[int], most: int) -> list[int]:
    """The run that each of these things belongs to: neighbours together, up to about `most` a run."""
    ends = list(accumulate(sizes, initial=0))
    firsts = [begin // most for begin in ends[:-1]]
    new = [0] + [int(a != b) for a, b in pairwise(firsts)]
    return list(accumulate(new[: len(sizes)]))


def _pieces(work: Work, size: int, share: int) -> list[Work]:
    """A node alone that is heavier than a slot's share, cut between groups of children."""
    groups = -(-work.unit.widest // GROUP)
    if work.unit.nodes > 1 or groups < 2 or work.load <= max(share, SMALLEST_TASK):
        return [work]
    pieces = min(groups, -(-work.load // size))
    return [Work(work.member, work.unit, piece, pieces) for piece in range(pieces)]


def _name(work: Work) -> tuple[int, int, int]:
    return work.member, work.unit.unit, work.piece
