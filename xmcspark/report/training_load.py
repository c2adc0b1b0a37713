"""How well training was dealt out: the plan's loads beside the seconds that the units took. Tasks are planned again
from the units, which gives those of the run, so that the balance can be told for what was expected and for what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from xmcspark.matchers.schedule import Task, Work, plan_tasks, slot_balance
from xmcspark.report.data import UnitLoad
from xmcspark.tree.units import Unit

_NANOSECONDS = 1e9


@dataclass(frozen=True)
class LoadShare:
    """A unit's part of all training, as planned and as measured."""

    unit: UnitLoad
    planned: float
    measured: float


@dataclass(frozen=True)
class TrainingLoad:
    shares: list[LoadShare]  # the most expensive first
    seconds: float  # CPU seconds of all units
    slots: int
    planned_balance: float  # load of the busiest slot over the mean
    measured_balance: float

    @property
    def typical_error(self) -> float:
        """The factor by which half of the units were expected wrong, or more."""
        factors = [
            max(share.planned / share.measured, share.measured / share.planned)
            for share in self.shares
            if share.planned and share.measured
        ]
        return median(factors) if factors else 1.0


def training_load(units: Sequence[UnitLoad], slots: int | None) -> TrainingLoad | None:
    """None if no unit took any time."""
    planned, seconds = (sum(getattr(unit, name) for unit in units) for name in ("predicted_load", "seconds"))
    if not planned or not seconds:
        return None
    shares = [LoadShare(unit, unit.predicted_load / planned, unit.seconds / seconds) for unit in units]
    shares.sort(key=lambda share: (-share.unit.seconds, share.unit.member, share.unit.sub_tree))
    slots = slots or 1
    waves = _planned_waves(units, slots)
    took = {_name(unit): round(unit.seconds * _NANOSECONDS) for unit in units}
    measured = [[_measured(task, took) for task in wave] for wave in waves]
    return TrainingLoad(shares, seconds, slots, slot_balance(waves, slots), slot_balance(measured, slots))


def _planned_waves(units: Sequence[UnitLoad], slots: int) -> list[list[Task]]:
    waves: dict[int, list[Work]] = {}
    for unit in units:
        waves.setdefault(unit.wave, []).append(Work(unit.member, _unit(unit)))
    return [plan_tasks(waves[number], slots) for number in sorted(waves)]


def _unit(line: UnitLoad) -> Unit:
    """As the schedule saw it: only a single node is ever cut into pieces, and its children are its matchers."""
    return Unit(
        unit=line.sub_tree,
        node=line.node,
        level=0,
        whole=line.nodes > 1,
        nodes=line.nodes,
        matchers=line.matchers,
        rows=line.rows,
        nnz=line.nnz,
        targets=0,
        widest=line.matchers,
        load=round(line.predicted_load),
    )


def _measured(task: Task, took: dict[tuple[int, int, int], int]) -> Task:
    return Task(
        tuple(
            replace(work, unit=replace(work.unit, load=took[work.member, work.unit.unit, work.unit.node]))
            for work in task.works
        )
    )


def _name(unit: UnitLoad) -> tuple[int, int, int]:
    return unit.member, unit.sub_tree, unit.node
