"""One repetition as one Spark task: all training rows come to it, it trains, and leaves the repetition's folder, as a
folder on a disk that all tasks see or as rows of bytes elsewhere."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from xmcspark.errors import ConfigError
from xmcspark.mach.linear import train_linear
from xmcspark.mach.repetition import LinearRepetition, MlpRepetition, Part
from xmcspark.mach.settings import MachSettings, learner_problem
from xmcspark.mach.training_rows import COLUMNS, SketchRows, gathered_rows
from xmcspark.matchers.peak_memory import PeakMemory
from xmcspark.matchers.settings import TrainSettings
from xmcspark.store.direct_tables import ArrowFunction, Rows
from xmcspark.store.side_files import SideFolder

FILES = "name string, data binary, facts string"
_FILES_ARROW = pa.schema([("name", pa.string()), ("data", pa.binary()), ("facts", pa.string())])
_PART_BYTES = 4 << 20


@dataclass(frozen=True)
class SketchPlan:
    """What every repetition needs to know. Travels with each task."""

    settings: MachSettings
    train: TrainSettings
    features: int
    live: SideFolder  # bool for each label id
    label_ids: int
    made_weights: tuple[
        float, float
    ]  # of rows that an augmentation made: for their targets, and relative to it else
    threads: int
    seed: int

    def part(self, repetition: int) -> Part:
        s = self.settings
        return Part(repetition, self.seed, s.buckets, self.label_ids, self.features, s.hashed_features)

    @property
    def columns(self) -> Sequence[str]:
        return (*COLUMNS, "relevance") if self.train.cost_sensitive else COLUMNS


def trained_files(rows: Rows, plan: SketchPlan, repetition: int, folder: str | None) -> DataFrame:
    """The repetition's folder as rows of FILES, by one task: where `folder` is given, as a folder in it, and one row
    that names it; else the bytes of its files in order."""
    return rows.map(plan.columns, _training(plan, repetition, folder), FILES, together=True)


def _training(plan: SketchPlan, repetition: int, folder: str | None) -> ArrowFunction:
    def train(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if problem := learner_problem(plan.settings):  # before all rows are here
            raise ConfigError([problem])
        peak, started = PeakMemory(), time.process_time()
        live = np.load(plan.live.path() / "live.npy", mmap_mode="r", allow_pickle=False)
        rows = gathered_rows(batches, plan.features, live, plan.train.cost_sensitive)
        trained = _trained(plan, plan.part(repetition), rows)
        facts = {
            "rows": rows.X.shape[0],
            "nnz": rows.X.nnz,
            "weights": trained.n_weights if isinstance(trained, LinearRepetition) else trained.n_bytes // 4,
            "bytes": trained.n_bytes,
            "peak_bytes": peak.bytes(),
            "seconds": time.process_time() - started,
        }
        if folder is not None:
            name = f"{repetition}-{uuid.uuid4().hex}"
            trained.save(Path(folder) / name)
            yield _row(name, None, facts)
            return
        with tempfile.TemporaryDirectory(prefix="xmcspark-mach-") as work:
            trained.save(work)
            yield from _bytes_of(Path(work), facts)

    return train


def _trained(plan: SketchPlan, part: Part, rows: SketchRows) -> LinearRepetition | MlpRepetition:
    weight, negative = plan.made_weights
    given: dict[str, Any] = {"row_keys": rows.keys, "threads": plan.threads}
    if plan.made_weights != (1.0, 1.0):
        given["row_weights"] = np.where(rows.made, np.float32(weight), np.float32(1))
        given["row_negatives"] = np.where(rows.made, np.float32(negative), np.float32(1))
    if plan.settings.learner == "linear":
        return train_linear(rows.X, rows.Y, part, plan.train, relevance=rows.relevance, **given)
    from xmcspark.mach.mlp import train_mlp  # torch comes with the extra `neural`

    return train_mlp(rows.X, rows.Y, part, plan.settings, **given)


def _bytes_of(folder: Path, facts: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    for path in sorted(folder.iterdir()):
        with open(path, "rb") as stream:
            data = stream.read(_PART_BYTES)
            while True:
                yield _row(path.name, data, facts)
                data = stream.read(_PART_BYTES)
                if not data:
                    break


def _row(name: str, data: bytes | None, facts: dict[str, Any]) -> pa.RecordBatch:
    columns = [[name], [data], [json.dumps(facts)]]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, _FILES_ARROW, strict=True)], schema=_FILES_ARROW
    )


def move_folder(source: Path, target: Path) -> None:
    """Puts what a task left where it belongs."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
