"""The comparison of two runs on the same instances. Decides which instances are the same: those with the same id and
the same true labels, by the labels' keys, so that runs may number their labels differently. Propensities and bins are
those of the first run's training labels; what only the other run knows counts as never seen in training."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.command_spark import Job, run_job
from xmcspark.config.configuration import Config
from xmcspark.errors import InputError
from xmcspark.labels.positives_spark import label_positives
from xmcspark.matchers.exclusion import drop_entries
from xmcspark.quality.bootstrap import COMPARED_REPLICATES
from xmcspark.quality.compare_options import add_compare_options
from xmcspark.quality.comparison import ComparedRow, check_replicates, compared, comparison_text
from xmcspark.quality.evaluate_spark import STAGE, predicted_instances, training_profile
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.measure_spark import (
    ANY_LABEL,
    Measured,
    Measuring,
    measure,
    measuring_rows,
    send_profile,
)
from xmcspark.quality.renumbering import common_numbers, renumbered, renumbered_rows
from xmcspark.serving.run_choice_spark import chosen_run, runs_of
from xmcspark.sparse.arrow import csr_of_lists, lists_of_csr, parts_of_lists
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.runs import Run
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context

_READING = replace(STAGE, name="compare", writes=())  # reads what evaluate reads
_SIDE = "id string, labels array<int>, relevance array<float>, predicted array<int>, scores array<float>"
_NUMBERS = "numbers.npy"
_COLUMNS = ("labels", "relevance", "predicted", "scores")


@dataclass(frozen=True)
class Comparison:
    """Two runs, metric by metric."""

    run: str
    other: str
    split: str
    instances: int
    left_out: dict[str, int]  # instances that only one run has, or for which they disagree on the true labels
    replicates: int
    rows: list[ComparedRow]

    def to_json(self) -> str:
        document = {**self.__dict__, "rows": [_without_nan(row._asdict()) for row in self.rows]}
        return json.dumps(document, indent=1) + "\n"


def run_compare() -> int:
    """Runs the job; its exit code."""
    return run_job("compare", _work, add_compare_options)


def _work(job: Job) -> None:
    run = chosen_run(job.spark, job.config)
    other = _named_run(job.spark, run.root, job.options.other)
    found = compare_runs(
        job.spark, job.config, run, other, job.options.split, job.options.common, job.options.replicates
    )
    place = joined(run.uri, "comparisons", f"{other.id}.json")
    run.fs.write_text(place, found.to_json())
    left = ", ".join(f"{n:,} {why}" for why, n in found.left_out.items() if n)
    print(f"{found.instances:,} instances of split {found.split}{f'; left out: {left}' if left else ''}")
    print(f"\n{comparison_text(found.rows, run.id, other.id)}\n\n{run.fs.local_path(place) or place}")


def _named_run(spark: SparkSession, root: str, name: str) -> Run:
    """A run of the same root by its id, or of another by its path."""
    fs = Filesystem(spark)
    place, _, id = name.rstrip("/").rpartition("/")
    place = fs.qualified(place or root)
    if id not in (known := runs_of(fs, place)):
        raise InputError(
            f"--with {name}: there is no run {id} in {place}; its runs are {', '.join(known) or 'none'}"
        )
    return Run(fs, place, id)


def compare_runs(
    spark: SparkSession,
    config: Config,
    run: Run,
    other: Run,
    split: str = "test",
    common: bool = False,
    replicates: int = COMPARED_REPLICATES,
) -> Comparison:
    """Every metric of `config.evaluate` for both runs, the difference (run - other), its interval and p-value. Runs on
    different instances are refused, or compared on those they have in common."""
    check_replicates(replicates)
    ours, theirs = (_context(spark, config, some) for some in (run, other))
    try:
        profile, numbers = _one_numbering(ours, theirs)
        both = _side(ours, split, None).join(_side(theirs, split, numbers, "other_"), "id", "full_outer")
        both = both.persist()  # it is read three times
        try:
            n, left_out = _counted(both)
            _check_instances(run, other, split, n, left_out, common)
            sent = send_profile(ours, profile, config.evaluate.ks, replicates)
            sent = measuring_rows(sent, spark, profile.n_labels, n)
            same = both.where(_is_same())
            sides = [_measured(same, prefix, profile, sent) for prefix in ("", "other_")]
        finally:
            both.unpersist()
    finally:
        for context in (ours, theirs):
            context.fs.delete(joined(context.run.uri, "scratch", _READING.name))
    rows = compared(*((side.rows, side.replicates) for side in sides))
    return Comparison(run.id, other.id, split, n, left_out, replicates, rows)


def _context(spark: SparkSession, config: Config, run: Run) -> Context:
    """A run as it is, with its own rule about labels that are the instance itself."""
    record = run.record("predict")
    opened = json.loads(run.fs.read_text(joined(run.uri, "run.json")))
    excludes = bool(opened.get("config", {}).get("predict", {}).get("exclude_self"))
    own = replace(config, predict=replace(config.predict, exclude_self=excludes))
    return Context(spark, own, run, _READING, key=record.key)


def _one_numbering(ours: Context, theirs: Context) -> tuple[LabelProfile, SideFolder | None]:
    """The profile of all labels of both runs, and the number in it of each of the other's; None: its own."""
    counts = label_positives(ours.read("labels"))
    own = ours.read("labels").select("key", F.col("id").alias("own"))
    pairs = theirs.read("labels").select("key", F.col("id").alias("other")).join(own, "key", "left")
    parts = pairs.select("other", "own").mapInArrow(_packed, "other binary, own binary").collect()
    packed = [(np.frombuffer(part.other, np.int32), np.frombuffer(part.own, np.int32)) for part in parts]
    numbers, more = common_numbers(packed, len(counts))
    profile = training_profile(ours, np.concatenate([counts, np.zeros(more, np.int64)]))
    if numbers is None:
        return profile, None
    with tempfile.TemporaryDirectory(prefix="xmcspark-numbers-") as place:
        np.save(Path(place, _NUMBERS), numbers)
        return profile, send_made_folder(theirs, Path(place), "numbers")


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Numbers of labels, some thousand to a string: 8 bytes a label pass through the driver."""
    for batch in batches:
        columns = (batch.column(name).fill_null(-1).to_numpy().astype(np.int32) for name in ("other", "own"))
        strings = [pa.array([column.tobytes()], pa.binary()) for column in columns]
        yield pa.RecordBatch.from_arrays(strings, ["other", "own"])


def _side(context: Context, split: str, numbers: SideFolder | None, prefix: str = "") -> DataFrame:
    """The instances of a run: their true labels without those excluded, and their predictions."""
    function = partial(_numbered, numbers, context.run.id)
    frame = predicted_instances(context, split).mapInArrow(function, _SIDE)
    return frame.select("id", *(F.col(name).alias(f"{prefix}{name}") for name in _COLUMNS))


def _numbered(
    folder: SideFolder | None, run: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    numbers = None if folder is None else _opened(str(folder.path()))
    for batch in batches:
        truth = csr_of_lists(batch.column("labels"), batch.column("relevance"), ANY_LABEL, "instances")
        left = drop_entries(truth, csr_of_lists(batch.column("excluded"), None, ANY_LABEL, "exclude"))
        indptr, ranked, scores = parts_of_lists(
            batch.column("predicted"), batch.column("scores"), "predictions"
        )
        offsets = pa.array(indptr.astype(np.int32))
        predicted = (pa.array(renumbered(ranked, numbers, run)), pa.array(scores))
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("id"),
                *lists_of_csr(renumbered_rows(left, numbers, run)),
                *(pa.ListArray.from_arrays(offsets, values) for values in predicted),
            ],
            ["id", *_COLUMNS],
        )


@lru_cache(maxsize=1)
def _opened(folder: str) -> np.ndarray:
    numbers: np.ndarray = np.load(Path(folder, _NUMBERS), mmap_mode="r")
    return numbers


def _is_same() -> Column:
    return F.col("labels") == F.col("other_labels")


def _counted(both: DataFrame) -> tuple[int, dict[str, int]]:
    """(instances that are the same in both runs, how many are not, by reason)."""
    ours, theirs = F.col("labels").isNotNull(), F.col("other_labels").isNotNull()
    conditions = {
        "the same": _is_same(),
        "only in the run": ours & ~theirs,
        "only in the other": theirs & ~ours,
        "with other true labels": ours & theirs & ~_is_same(),
    }
    row = both.agg(*(F.count_if(condition).alias(why) for why, condition in conditions.items())).collect()[0]
    counts = {why: int(row[why]) for why in conditions}
    return counts.pop("the same"), counts


def _check_instances(
    run: Run, other: Run, split: str, n: int, left_out: dict[str, int], common: bool
) -> None:
    differ = sum(left_out.values())
    reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
    if not n:
        raise InputError(
            f"runs {run.id} and {other.id} have no instance of split {split} in common"
            + (f" ({reasons})" if reasons else "")
            + ": compare runs that were made from the same corpus"
        )
    if differ and not common:
        raise InputError(
            f"runs {run.id} and {other.id} differ in {differ:,} instances of split {split} ({reasons}): compare runs "
            f"that were made from the same corpus, or add --common to compare on the {n:,} that are the same in both"
        )


def _measured(same: DataFrame, prefix: str, profile: LabelProfile, sent: Measuring) -> Measured:
    columns = (F.col(f"{prefix}{name}").alias(name) for name in _COLUMNS)
    nothing = F.lit(None).cast("array<int>").alias("excluded")  # left out already
    return measure(same.select("id", *columns, nothing), profile, sent)


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {name: None if value != value else value for name, value in row.items()}
