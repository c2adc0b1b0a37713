"""Runs the waves of training that are not finished, two at a time so that no slot idles while one ends. Decides what
counts as finished: a record with the wave's key whose files are all there; whatever else lies in the table goes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from pyspark import Accumulator

from xmcspark.matchers.packed_parts import LevelPart
from xmcspark.matchers.wave_spark import (
    PACKED_COLUMNS,
    Forest,
    Loads,
    LoadsParam,
    Wave,
    routed_rows,
    training,
)
from xmcspark.store.direct_tables import Rows
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.filesystem import joined
from xmcspark.store.progress import tell
from xmcspark.store.runs import StageRecord
from xmcspark.store.stage import Context

log = logging.getLogger(__name__)

AT_ONCE = 2  # waves: the second fills the slots that the first no longer needs
_SUMMED = ("weights", "unfinished", "seconds", "unpack_seconds")  # over the pieces of a unit
_LARGEST = ("rows", "nnz", "peak_bytes")


@dataclass(frozen=True)
class FinishedWave:
    """What a wave left behind."""

    units: list[tuple[int, int]]  # (member, unit)
    costs: dict[tuple[int, int], dict[str, Any]]
    rows: int
    reused: bool

    def cost_of(self, member: int, unit: int) -> dict[str, Any]:
        return self.costs.get((member, unit), dict.fromkeys((*_SUMMED, *_LARGEST), 0))

    def parts_of(self, member: int, unit: int) -> list[LevelPart]:
        """Where the unit lies packed, if the task that trained it kept it so and its file is still there."""
        parts = [LevelPart.from_plain(plain) for plain in self.cost_of(member, unit).get("parts", [])]
        return parts if all(os.path.exists(part.file) for part in parts) else []


class WaveRuns:
    """The waves of a stage: which are finished, and how the others become so."""

    def __init__(self, context: Context, waves: Sequence[Wave]) -> None:
        """Looks for waves that an earlier attempt finished, and clears away what it left of the others."""
        self._context, self._waves, self._started = context, waves, time.monotonic()
        self._keys = [_key(context, wave) for wave in waves]
        self._finished = {
            number: found
            for number, key in enumerate(self._keys)
            if (found := _find(context, number, key)) is not None
        }
        _clear_leftovers(context, self._finished)
        if self._finished:
            log.info("train: %d of %d waves were finished before", len(self._finished), len(waves))
        self._loads: dict[int, Accumulator[Loads]] = {
            wave.number: context.spark.sparkContext.accumulator({}, LoadsParam())
            for wave in waves
            if wave.number not in self._finished
        }

    def pending(self, waves: Sequence[Wave]) -> list[Wave]:
        return [wave for wave in waves if wave.number not in self._finished]

    @property
    def finished(self) -> list[FinishedWave]:
        """In order."""
        return [self._finished[number] for number in sorted(self._finished)]

    def train(self, waves: Sequence[Wave], rows: Rows, forest: Forest) -> None:
        """Trains those of these waves that are pending. If one fails, those beside it may end: what they train will
        not have to be trained again."""
        pending = self.pending(waves)
        running: dict[Future[FinishedWave], Wave] = {}
        failed: BaseException | None = None
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while running or (pending and failed is None):
                while pending and len(running) < AT_ONCE and failed is None:
                    wave = pending.pop(0)
                    key, loads = self._keys[wave.number], self._loads[wave.number]
                    running[pool.submit(_run, self._context, rows, forest, wave, key, loads)] = wave
                try:
                    done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                except BaseException:  # interrupted: do not wait for what runs
                    _cancel(self._context, running.values())
                    raise
                _tell(self._waves, self._finished, running.values(), self._loads, self._started)
                for attempt in done:
                    wave = running.pop(attempt)
                    if (error := attempt.exception()) is not None:
                        failed = failed or error
                    else:
                        self._finished[wave.number] = attempt.result()
        if failed is not None:
            raise failed


def _run(
    context: Context, rows: Rows, forest: Forest, wave: Wave, key: str, loads: Accumulator[Loads]
) -> FinishedWave:
    started = time.monotonic()
    units = sorted({(work.member, work.unit.unit) for work in wave.works})
    context.spark.sparkContext.setJobGroup(
        _group(wave), f"train: wave {wave.number + 1}, {len(units)} units, {wave.labels:,} matchers"
    )
    with routed_rows(context, rows, forest, wave) as (routed, store):
        trained = training(forest, wave, store, loads)
        written, _ = write_mapped(
            context, "matchers", routed, trained, columns=PACKED_COLUMNS, folder=_folder_name(wave.number)
        )
    files = {entry.name: entry.size for entry in context.fs.walk(_folder(context, wave.number))}
    costs = _by_unit(loads.value)
    if store is not None:  # what units got, as a cluster without a common disk would have sent it
        context.exchanged.append(8 * sum(int(load["nnz"]) for load in loads.value.values()))
    notes = {
        "units": units,
        "files": files,
        "costs": [[*unit, cost] for unit, cost in sorted(costs.items())],
    }
    seconds = time.monotonic() - started
    context.run.finish(StageRecord(_name(wave.number), key, seconds, {"matchers": written}, notes))
    return FinishedWave(units, costs, written, reused=False)


def _by_unit(loads: Loads) -> dict[tuple[int, int], dict[str, Any]]:
    """Costs of whole units: seconds of their pieces added, memory of the largest."""
    costs: dict[tuple[int, int], dict[str, Any]] = {}
    for (member, unit, _), load in loads.items():
        cost = costs.setdefault((member, unit), dict.fromkeys((*_SUMMED, *_LARGEST), 0))
        cost.update({name: cost[name] + load[name] for name in _SUMMED})
        cost.update({name: max(cost[name], load[name]) for name in _LARGEST})
        cost["parts"] = load["parts"]  # none, where there are several pieces
    return costs


def _find(context: Context, number: int, key: str) -> FinishedWave | None:
    record = context.run.find_record(_name(number))
    if record is None or record.key != key:
        return None
    there = {entry.name: entry.size for entry in context.fs.walk(_folder(context, number))}
    if any(there.get(name) != size for name, size in record.notes["files"].items()):
        log.warning("train: wave %d lacks files that its record lists: it is trained again", number + 1)
        return None
    units = [(int(member), int(unit)) for member, unit in record.notes["units"]]
    costs = {(int(member), int(unit)): cost for member, unit, cost in record.notes["costs"]}
    return FinishedWave(units, costs, int(record.rows["matchers"]), reused=True)


def _clear_leftovers(context: Context, finished: dict[int, FinishedWave]) -> None:
    """Deletes records and files of waves that are not finished, and files that finished ones do not list."""
    listed = {}
    for number in finished:
        record = context.run.record(_name(number))
        listed[_folder(context, number).rpartition("/")[2]] = set(record.notes["files"])
    for entry in context.fs.list(joined(context.run.uri, "stages")):
        name = entry.name.removesuffix(".json")
        if name.startswith(_PREFIX) and name not in {_name(number) for number in finished}:
            context.run.forget(name)
    for entry in context.fs.list(context.run.table("matchers")):
        if entry.name not in listed:
            context.fs.delete(entry.uri)
            continue
        for file in context.fs.list(entry.uri):
            if file.name not in listed[entry.name] and not file.name.startswith(("_", ".")):
                context.fs.delete(file.uri)


def _key(context: Context, wave: Wave) -> str:
    """Of the stage, and of the units in the wave and where their nodes begin: the same nodes trained in other tasks are
    the same wave."""
    units = sorted((work.member, work.unit.unit, work.unit.node) for work in wave.works if work.piece == 0)
    text = json.dumps([context.key, wave.number, units])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _tell(
    waves: Sequence[Wave],
    finished: dict[int, FinishedWave],
    running: Any,
    loads: dict[int, Accumulator[Loads]],
    started: float,
) -> None:
    """Units that a task has not ended with yet count as not done. The time left goes by the expected load of what
    this attempt has trained and has yet to train."""
    at_work = sorted(wave.number + 1 for wave in running)
    done = units = matchers = trained = spent = left = 0
    for wave in waves:
        before = wave.number in finished and wave.number not in loads
        reported = {} if wave.number in finished else loads[wave.number].value
        for work in wave.works:
            key = (work.member, work.unit.unit, work.piece)
            share = work.unit.matchers // work.pieces
            there = wave.number in finished or key in reported
            done, units = done + there, units + 1
            trained, matchers = trained + share * there, matchers + share
            spent, left = spent + work.load * (there and not before), left + work.load * (not there)
    if at_work:
        names = " and ".join(f"{number}/{len(waves)}" for number in at_work)
        seconds = (time.monotonic() - started) * left / spent if spent else None
        soon = f", about {seconds:.0f} s left" if seconds is not None else ""
        tell("train", f"wave {names}: {done} of {units} units, {trained:,} of {matchers:,} matchers{soon}")


def _cancel(context: Context, running: Any) -> None:
    for wave in running:
        context.spark.sparkContext.cancelJobGroup(_group(wave))


_PREFIX = "train.wave-"


def _name(number: int) -> str:
    return f"{_PREFIX}{number}"


def _group(wave: Wave) -> str:
    return f"train wave {wave.number}"


def _folder(context: Context, number: int) -> str:
    """A folder of its own in the table, named as Spark names partitions, so that readers see one table."""
    return joined(context.run.table("matchers"), _folder_name(number))


def _folder_name(number: int) -> str:
    return f"wave={number}"
