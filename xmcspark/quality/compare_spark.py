"""The comparison of two runs on the same instances (same_instances_spark.py). Propensities and bins are those of the
first run's training labels; what only the other run knows counts as never seen in training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.command_spark import Job, run_job
from xmcspark.config.configuration import Config
from xmcspark.labels.positives_spark import label_positives
from xmcspark.quality.bootstrap import COMPARED_REPLICATES
from xmcspark.quality.compare_options import add_compare_options
from xmcspark.quality.comparison import ComparedRow, check_replicates, compared, comparison_text
from xmcspark.quality.evaluate_spark import training_profile
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.measure_spark import Measured, Measuring, measure, measuring_rows, send_profile
from xmcspark.quality.same_instances_spark import (
    COLUMNS,
    check_instances,
    counted,
    is_same,
    named_run,
    numbers_in,
    reading_context,
    send_numbers,
    side,
)
from xmcspark.serving.run_choice_spark import chosen_run
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import Run
from xmcspark.store.side_files import SideFolder
from xmcspark.store.stage import Context

_JOB, _OTHER = "compare", "other_"


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
    return run_job(_JOB, _work, add_compare_options)


def _work(job: Job) -> None:
    run = chosen_run(job.spark, job.config)
    other = named_run(job.spark, run.root, job.options.other, "--with")
    found = compare_runs(
        job.spark, job.config, run, other, job.options.split, job.options.common, job.options.replicates
    )
    place = joined(run.uri, "comparisons", f"{other.id}.json")
    run.fs.write_text(place, found.to_json())
    left = ", ".join(f"{n:,} {why}" for why, n in found.left_out.items() if n)
    print(f"{found.instances:,} instances of split {found.split}{f'; left out: {left}' if left else ''}")
    print(f"\n{comparison_text(found.rows, run.id, other.id)}\n\n{run.fs.local_path(place) or place}")


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
    ours, theirs = (reading_context(spark, config, some, _JOB) for some in (run, other))
    try:
        profile, numbers = _one_numbering(ours, theirs)
        both = side(ours, split, None).join(side(theirs, split, numbers, _OTHER), "id", "full_outer")
        both = both.persist()  # it is read three times
        try:
            ((n, left_out),) = counted(both, [_OTHER])
            if not (common and n):
                remedy = f", or add --common to compare on the {n:,} that are the same in both"
                check_instances((run, other), split, n, left_out, "compare", remedy)
            sent = send_profile(ours, profile, config.evaluate.ks, replicates)
            sent = measuring_rows(sent, spark, profile.n_labels, n)
            same = both.where(is_same(_OTHER))
            sides = [_measured(same, prefix, profile, sent) for prefix in ("", _OTHER)]
        finally:
            both.unpersist()
    finally:
        for context in (ours, theirs):
            context.fs.delete(joined(context.run.uri, "scratch", _JOB))
    rows = compared(*((found.rows, found.replicates) for found in sides))
    return Comparison(run.id, other.id, split, n, left_out, replicates, rows)


def _one_numbering(ours: Context, theirs: Context) -> tuple[LabelProfile, SideFolder | None]:
    """The profile of all labels of both runs, and the number in it of each of the other's; None: its own."""
    counts = label_positives(ours.read("labels"))
    numbers, more = numbers_in(ours.read("labels"), len(counts), theirs.read("labels"))
    profile = training_profile(ours, np.concatenate([counts, np.zeros(more, np.int64)]))
    return profile, send_numbers(theirs, numbers)


def _measured(same: DataFrame, prefix: str, profile: LabelProfile, sent: Measuring) -> Measured:
    columns = (F.col(f"{prefix}{name}").alias(name) for name in COLUMNS)
    nothing = F.lit(None).cast("array<int>").alias("excluded")  # left out already
    return measure(same.select("id", *columns, nothing), profile, sent)


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {name: None if value != value else value for name, value in row.items()}
