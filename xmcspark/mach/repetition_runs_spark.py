"""Runs the repetitions that are not finished, as many at a time as there are slots, each a job of one task. Decides
what counts as finished: a record with the repetition's key whose files are all there. Others are trained again."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xmcspark.mach.repetition_spark import SketchPlan, move_folder, trained_files
from xmcspark.mach.settings import REPETITION_KEYS
from xmcspark.store.direct_tables import Rows
from xmcspark.store.filesystem import joined
from xmcspark.store.progress import tell
from xmcspark.store.runs import StageRecord
from xmcspark.store.stage import Context

log = logging.getLogger(__name__)

_PREFIX = "train.repetition-"
_OF_TREES = ("negatives", "man_beam")  # settings of training that say nothing about buckets


@dataclass(frozen=True)
class FinishedRepetition:
    repetition: int
    facts: dict[str, Any]
    reused: bool


class RepetitionRuns:
    """The repetitions of a sketch: which are finished, and how the others become so. Their folders lie in `uri`."""

    def __init__(self, context: Context, plan: SketchPlan, uri: str) -> None:
        self._context, self._plan, self._uri = context, plan, uri
        self._finished = {
            number: found
            for number in range(plan.settings.repetitions)
            if (found := self._find(number)) is not None
        }
        self._clear_leftovers()
        if self._finished:
            log.info(
                "train: %d of %d repetitions were finished before",
                len(self._finished),
                plan.settings.repetitions,
            )

    @property
    def finished(self) -> list[FinishedRepetition]:
        return [self._finished[number] for number in sorted(self._finished)]

    def train(self, rows: Rows, at_once: int) -> None:
        """Trains what is pending. If one fails, those beside it may end: they will not have to be trained again."""
        count = self._plan.settings.repetitions
        pending = [number for number in range(count) if number not in self._finished]
        running: dict[Future[FinishedRepetition], int] = {}
        failed: BaseException | None = None
        before, started = len(self._finished), time.monotonic()
        with ThreadPoolExecutor(max(1, at_once)) as pool:
            while running or (pending and failed is None):
                while pending and len(running) < at_once and failed is None:
                    number = pending.pop(0)
                    running[pool.submit(self._run, rows, number)] = number
                try:
                    done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                except BaseException:  # interrupted: do not wait for what runs
                    for number in running.values():
                        self._context.spark.sparkContext.cancelJobGroup(_group(number))
                    raise
                for attempt in done:
                    number = running.pop(attempt)
                    if (error := attempt.exception()) is not None:
                        failed = failed or error
                    else:
                        self._finished[number] = attempt.result()
                self._tell(len(self._finished) - before, time.monotonic() - started)
        if failed is not None:
            raise failed

    def _run(self, rows: Rows, number: int) -> FinishedRepetition:
        context, started = self._context, time.monotonic()
        context.spark.sparkContext.setJobGroup(_group(number), f"train: repetition {number}")
        target = self._folder(number)
        context.fs.delete(target)
        local = context.fs.local_path(target)
        facts = self._in_place(rows, number, Path(local)) if local else self._sent(rows, number, target)
        notes = {"facts": facts, "files": _sizes(context, target)}
        context.run.finish(
            StageRecord(_name(number), self._key(number), time.monotonic() - started, {}, notes)
        )
        return FinishedRepetition(number, facts, reused=False)

    def _in_place(self, rows: Rows, number: int, target: Path) -> dict[str, Any]:
        """The task writes the folder, under a name of its own: one that runs twice is moved into place once."""
        with self._scratch() as scratch:
            (row,) = trained_files(rows, self._plan, number, str(scratch)).collect()
            move_folder(scratch / row.name, target)
        return dict(json.loads(row.facts))

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        local = self._context.fs.local_path(self._context.scratch("repetitions"))
        assert local is not None
        folder = Path(local)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder

    def _sent(self, rows: Rows, number: int, target: str) -> dict[str, Any]:
        """The task sends the bytes, Spark writes them, and the driver makes files of them."""
        fs, scratch = self._context.fs, self._context.scratch(f"repetition-{number}")
        files = trained_files(rows, self._plan, number, None)
        files.write.mode("overwrite").option("compression", "uncompressed").parquet(scratch)
        facts: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="xmcspark-mach-") as work:
            fs.download(scratch, Path(work) / "sent")
            folder = Path(work) / "repetition"
            folder.mkdir()
            for part in sorted((Path(work) / "sent").glob("*.parquet")):
                for batch in pq.ParquetFile(part).iter_batches(batch_size=8):
                    for name, data, said in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                        with open(folder / name, "ab") as stream:
                            stream.write(data)
                        facts = json.loads(said)
            fs.upload(folder, target)
        fs.delete(scratch)
        return facts

    def _find(self, number: int) -> FinishedRepetition | None:
        record = self._context.run.find_record(_name(number))
        if record is None or record.key != self._key(number):
            return None
        there = _sizes(self._context, self._folder(number))
        if any(there.get(name) != size for name, size in record.notes["files"].items()):
            log.warning("train: repetition %d lacks files that its record lists: it is trained again", number)
            return None
        return FinishedRepetition(number, record.notes["facts"], reused=True)

    def _clear_leftovers(self) -> None:
        """Deletes records and folders of repetitions that are not finished."""
        context, names = self._context, {_name(number) for number in self._finished}
        for entry in context.fs.list(joined(context.run.uri, "stages")):
            name = entry.name.removesuffix(".json")
            if name.startswith(_PREFIX) and name not in names:
                context.run.forget(name)
        for entry in context.fs.list(self._uri):
            if entry.name not in map(str, self._finished):
                context.fs.delete(entry.uri)
        context.fs.delete(context.scratch("repetitions"))

    def _key(self, number: int) -> str:
        """Of what this repetition is trained from, and of nothing else: how many others there are changes none."""
        plan, read = self._plan, self._context.run.input_keys(("features", "labels"))
        own = {name: value for name, value in vars(plan.settings).items() if name in REPETITION_KEYS}
        trained = {name: value for name, value in vars(plan.train).items() if name not in _OF_TREES}
        identity = [
            self._context.stage.version,
            asdict(plan.part(number)),
            own,
            trained,
            plan.made_weights,
            read,
        ]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def _folder(self, number: int) -> str:
        return joined(self._uri, str(number))

    def _tell(self, trained: int, seconds: float) -> None:
        count, done = self._plan.settings.repetitions, len(self._finished)
        soon = f", about {seconds * (count - done) / trained:.0f} s left" if trained and done < count else ""
        tell("train", f"{done} of {count} repetitions{soon}")


def _sizes(context: Context, uri: str) -> dict[str, int]:
    return {entry.name: entry.size for entry in context.fs.walk(uri)}


def _name(number: int) -> str:
    return f"{_PREFIX}{number}"


def _group(number: int) -> str:
    return f"train repetition {number}"
