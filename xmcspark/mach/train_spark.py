"""MACH in the stage train: plans the repetitions, has those trained that no earlier attempt finished, and puts the
sketch together, for which nothing but their files is needed. What each learned becomes rows of the table matchers."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import functions as F

from xmcspark.errors import ConfigError
from xmcspark.mach.advice import advice, too_few
from xmcspark.mach.matcher_rows import repetition_rows
from xmcspark.mach.model import LABELS, save_labels
from xmcspark.mach.repetition import LinearRepetition, load_repetition
from xmcspark.mach.repetition_runs_spark import FinishedRepetition, RepetitionRuns
from xmcspark.mach.repetition_spark import SketchPlan
from xmcspark.mach.settings import learner_problem
from xmcspark.mach.task_memory import check_repetition_memory, repetition_bytes, repetition_load
from xmcspark.mach.training_rows import check_label_ids
from xmcspark.store.direct_tables import FrameRows, Rows, rows_of_table
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.filesystem import joined
from xmcspark.store.session import arrow_batch, slots_of, task_threads
from xmcspark.store.side_files import SideFolder, local_copy, send_folder, send_made_folder
from xmcspark.store.stage import Context

log = logging.getLogger(__name__)

MODEL = "bundle/model"
SKETCH = "mach"  # its folder in MODEL
_BITS = "payload binary"
_ROWS_PER_BATCH = 512

LoadRow = tuple[Any, ...]


@dataclass(frozen=True)
class PlannedSketch:
    """What is known of a sketch that can be trained."""

    plan: SketchPlan
    live: np.ndarray
    sizes: tuple[int, int, int]  # rows, entries and targets of what is trained on
    bytes: int  # that a repetition takes, by estimate

    @property
    def labels(self) -> int:
        return int(self.live.sum())


def planned_sketch(context: Context, memory_limit: int | None) -> PlannedSketch:
    """The sketch that the settings ask for, or an error: looked at before anything is trained, trees included."""
    settings, rows = context.config.mach, rows_of_table(context, "features", "train")
    _check_learner(context)
    live = labels_to_predict(context, rows)
    settings.check_labels(int(live.sum()), context.config.predict.top_k)
    _advise(context, int(live.sum()))
    plan, sizes = _plan(context, live), _sizes(context)
    expected = repetition_bytes(plan.part(0), plan.settings, *sizes, plan.threads)
    check_repetition_memory(expected, memory_limit)
    return PlannedSketch(plan, live, sizes, expected)


def train_sketch(context: Context, sketch: PlannedSketch, first_member: int, wave: int) -> list[LoadRow]:
    """Trains all repetitions and writes the sketch; rows of sub_tree_load. `first_member`: number of repetition 0 in
    the tables, after the trees; `wave`: that of its rows in the table matchers."""
    plan, buckets = sketch.plan, sketch.plan.settings.buckets
    runs = RepetitionRuns(context, plan, joined(context.folder(MODEL), SKETCH))
    runs.train(rows_of_table(context, "features", "train"), slots_of(context.spark))
    _write_labels(context, plan, sketch.live)
    written = _write_matchers(context, plan, first_member, wave) if plan.settings.learner == "linear" else 0
    context.rows["matchers"] = context.rows.get("matchers", 0) + written
    _note(context, runs.finished, sketch.labels, first_member)
    load = repetition_load(buckets, *sketch.sizes, context.config.train.max_rows)
    return [_load_row(first_member, wave, buckets, done, sketch.bytes, load) for done in runs.finished]


def labels_to_predict(context: Context, rows: Rows) -> np.ndarray:
    """Whether each label id may be predicted: it is active and some training row has it. Tasks join what they met on
    the way, so that the driver holds a bit for each label a few times, whatever the number of tasks."""
    files = local_copy(context.fs, context.run.table("labels"))
    table = ds.dataset(files, format="parquet").to_table(columns=["id", "active"])
    ids, active = table["id"].to_numpy(), table["active"].to_numpy(zero_copy_only=False)
    live = np.zeros(int(ids.max(initial=-1)) + 1, bool)
    live[ids[active]] = True
    met = rows.map(("labels",), partial(_labels_met, len(live)), _BITS).rdd.map(
        lambda row: bytes(row.payload)
    )
    found = met.treeAggregate(b"", _either, _either) or bytes(-(-len(live) // 8))
    return np.logical_and(live, np.unpackbits(np.frombuffer(found, np.uint8), count=len(live)))


def _labels_met(ids: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    met = np.zeros(ids, bool)
    for batch in batches:
        labels = batch.column(0).flatten().to_numpy(zero_copy_only=False)
        check_label_ids(labels, ids)
        met[labels] = True
    yield pa.RecordBatch.from_arrays([pa.array([np.packbits(met).tobytes()], pa.binary())], names=["payload"])


def _either(one: bytes, other: bytes) -> bytes:
    """The bits of both; no bytes at all are none set."""
    if not one or not other:
        return one or other
    return np.bitwise_or(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)).tobytes()


def _check_learner(context: Context) -> None:
    """That tasks can train it: asked of as many as there are slots, as executors may differ."""
    settings, look, slots = context.config.mach, learner_problem, slots_of(context.spark)
    if settings.learner == "linear":
        return
    asked = context.spark.sparkContext.parallelize(range(slots), slots).map(lambda _: look(settings))
    if problems := sorted({said for said in asked.collect() if said}):
        raise ConfigError(problems)


def _advise(context: Context, labels: int) -> None:
    settings = context.config.mach
    sizes = (labels, settings.buckets, settings.repetitions, settings.delta)
    said = advice(*sizes)
    warning = too_few(*sizes)
    for sentence in said:
        (log.warning if sentence == warning else log.info)("train: %s", sentence)
    context.note(mach_advice=said, **({} if warning is None else {"warnings": [warning]}))


def _plan(context: Context, live: np.ndarray) -> SketchPlan:
    config = context.config
    weight, negative = config.augment.weights
    return SketchPlan(
        settings=config.mach,
        train=config.train.alone,
        features=int(context.noted("vectorize")["features"]),
        live=_sent_live(context, live),
        label_ids=len(live),
        made_weights=(weight, negative / weight),
        threads=task_threads(context.spark),
        seed=config.seed,
    )


def _sent_live(context: Context, live: np.ndarray) -> SideFolder:
    with tempfile.TemporaryDirectory(prefix="xmcspark-mach-") as work:
        np.save(Path(work) / "live.npy", live, allow_pickle=False)
        return send_made_folder(context, Path(work), "live")


def _sizes(context: Context) -> tuple[int, int, int]:
    """Rows, entries and targets of what is trained on."""
    counted = (
        context.read("features")
        .where("split = 'train'")
        .agg(F.count(F.lit(1)).alias("rows"), F.sum(F.size("labels")).alias("targets"))
        .first()
    )
    assert counted is not None
    return int(counted["rows"]), int(context.noted("vectorize")["nnz"]), int(counted["targets"] or 0)


def _write_labels(context: Context, plan: SketchPlan, live: np.ndarray) -> None:
    """Last: a sketch that has its labels is complete."""
    uri = joined(context.folder(MODEL), SKETCH)
    with tempfile.TemporaryDirectory(prefix="xmcspark-mach-") as work:
        save_labels(work, live, plan.part(0), plan.settings.repetitions)
        context.fs.delete(joined(uri, LABELS))
        context.fs.upload(Path(work) / LABELS, joined(uri, LABELS))


def _write_matchers(context: Context, plan: SketchPlan, first_member: int, wave: int) -> int:
    """The weights of all repetitions as rows of the table, a task for each."""
    uri, count = joined(context.folder(MODEL), SKETCH), plan.settings.repetitions
    folder = send_folder(context.spark, context.fs, uri, context.key)
    numbers = context.spark.range(0, count, 1, count).select(F.col("id").cast("int").alias("repetition"))
    with arrow_batch(context.spark, _ROWS_PER_BATCH):
        written, _ = write_mapped(
            context,
            "matchers",
            FrameRows(numbers),
            partial(_matchers, folder, first_member, context.run.id),
            columns=("repetition",),
            folder=f"wave={wave}",
        )
    return written


def _matchers(
    folder: SideFolder, first_member: int, run: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        repetition = load_repetition(folder.path() / str(number))
        assert isinstance(repetition, LinearRepetition)
        yield from repetition_rows(repetition, first_member + number, run)


def _load_row(
    first_member: int, wave: int, buckets: int, done: FinishedRepetition, expected: int, load: int
) -> LoadRow:
    """As the columns of sub_tree_load."""
    f = done.facts
    place = (first_member + done.repetition, 0, 0, 1, buckets, wave, done.repetition)
    return (*place, f["rows"], f["nnz"], expected, f["peak_bytes"], float(load), float(f["seconds"]))


def _note(context: Context, finished: list[FinishedRepetition], labels: int, first_member: int) -> None:
    settings = context.config.mach
    facts = [done.facts for done in finished]
    context.note(
        mach={
            "buckets": settings.buckets,
            "repetitions": settings.repetitions,
            "hashed_features": settings.hashed_features,
            "first_member": first_member,
        },
        mach_labels=labels,
        repetitions_trained=sum(not done.reused for done in finished),
        repetitions_reused=sum(done.reused for done in finished),
        mach_weights=sum(int(fact["weights"]) for fact in facts),
        mach_bytes=sum(int(fact["bytes"]) for fact in facts),
        mach_cpu_seconds=round(sum(float(fact["seconds"]) for fact in facts), 3),
        mach_peak_bytes=max(int(fact["peak_bytes"]) for fact in facts),
    )
