"""Runs stages in order: skips what is finished for the same settings and inputs, records what finishes. Decides
what a person sees meanwhile: one line when a stage starts, one when it is done, a table at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.errors import StoreError
from xmcspark.store.progress import Progress
from xmcspark.store.published import history
from xmcspark.store.runs import Run, StageRecord
from xmcspark.store.stage import Context, Stage, record_of, stage_key

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """How a stage ended."""

    record: StageRecord
    skipped: bool


def run_stages(
    spark: SparkSession, config: Config, run: Run, base: Run | None, stages: Sequence[Stage]
) -> list[Outcome]:
    """Runs what is not finished, in order; stops at the first stage that fails."""
    return [run_stage(spark, config, run, base, stage) for stage in stages]


def run_stage(spark: SparkSession, config: Config, run: Run, base: Run | None, stage: Stage) -> Outcome:
    context = Context(spark, config, run, stage, base)
    context.key = stage_key(stage, context)
    found = run.find_record(stage.name)
    if found is not None and found.key == context.key:
        log.info("%s: finished before, skipped", stage.name)
        return Outcome(found, skipped=True)
    _check_may_run(run, stage)
    run.forget(stage.name)
    log.info("%s: started", stage.name)
    started = time.monotonic()
    with Progress(spark, stage.name):
        stage.run(context)
    record = record_of(context, time.monotonic() - started)
    run.finish(record)
    rows = ", ".join(f"{table} {count:,}" for table, count in record.rows.items())
    log.info("%s: done in %.1f s%s", stage.name, record.seconds, f" ({rows})" if rows else "")
    return Outcome(record, skipped=False)


def _check_may_run(run: Run, stage: Stage) -> None:
    """A stage writes where it wrote before: not in a run that was published, and not from inputs that are not whole."""
    if stage.name != "publish" and run.id in (p.run for p in history(run.fs, run.root)):
        raise StoreError(
            f"run {run.id} was published, and its settings or inputs have changed since (stage {stage.name} would run "
            "again): what is served is never written over. Give the new run another name with --run"
        )
    absent = [name for name in stage.reads if run.key_of_input(name) == "absent"]
    if absent:
        raise StoreError(
            f"run {run.id}: {', '.join(absent)} is not there or not finished, and {stage.name} needs it; run the "
            "stages before it first (refresh runs all of them)"
        )


def summary_table(outcomes: Sequence[Outcome]) -> str:
    """Stage, rows written, seconds and share of the time, as text."""
    total = sum(outcome.record.seconds for outcome in outcomes if not outcome.skipped)
    lines = [f"{'stage':<10} {'rows':>12} {'seconds':>9} {'share':>6}"]
    for outcome in outcomes:
        record = outcome.record
        rows = f"{sum(record.rows.values()):,}"
        spent = "skipped" if outcome.skipped else f"{record.seconds:.1f}"
        share = "" if outcome.skipped or not total else f"{record.seconds / total:.0%}"
        lines.append(f"{record.stage:<10} {rows:>12} {spent:>9} {share:>6}")
    lines.append(f"{'all':<10} {'':>12} {total:>9.1f}")
    return "\n".join(lines)
