"""Runs stages in order: skips what is finished for the same settings and inputs, records what finishes. Decides
what a person sees meanwhile: one line when a stage starts, one when it is done, a table at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.errors import StoreError
from xmcspark.store.measured import Meter
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
    """Runs what is not finished, in order; stops at the first stage that fails, or that will."""
    outcomes = []
    for place, stage in enumerate(stages):
        outcome = run_stage(spark, config, run, base, stage)
        outcomes.append(outcome)
        for later in stages[place + 1 :]:
            early = later.early_check
            if early is None or early.after != stage.name:
                continue
            context = Context(spark, config, run, later, base)
            if not outcome.skipped or not _is_finished(context):
                early.check(context)
    return outcomes


def _is_finished(context: Context) -> bool:
    """With the settings and inputs that there are now."""
    found = context.run.find_record(context.stage.name)
    return found is not None and found.key == stage_key(context.stage, context)


def run_stage(spark: SparkSession, config: Config, run: Run, base: Run | None, stage: Stage) -> Outcome:
    context = Context(spark, config, run, stage, base)
    _check_inputs_are_current(run, stage, config)
    context.key = stage_key(stage, context)
    found = run.find_record(stage.name)
    if found is not None and found.key == context.key:
        log.info("%s: finished before, skipped", stage.name)
        return Outcome(found, skipped=True)
    _check_may_run(run, stage, config)
    run.forget(stage.name)
    log.info("%s: started", stage.name)
    started, meter = time.monotonic(), Meter(spark)
    with Progress(spark, stage.name):
        stage.run(context)
    record = replace(
        record_of(context, time.monotonic() - started), measured=meter.read(sum(context.exchanged))
    )
    run.finish(record)
    rows = ", ".join(f"{table} {count:,}" for table, count in record.rows.items())
    log.info("%s: done in %.1f s%s", stage.name, record.seconds, f" ({rows})" if rows else "")
    return Outcome(record, skipped=False)


def _check_inputs_are_current(run: Run, stage: Stage, config: Config) -> None:
    """What the stage reads must come, by way of all stages before it, from what is there now. Only their records are
    compared: settings of other stages may be given as they please, each stage keeps those it ran with."""
    stale = stale_stages(run.records(), stage.needed(config))
    if not stale:
        return
    first, changed = next(iter(stale.items()))
    raise StoreError(
        f"run {run.id}: {stage.name} would work on old tables: {', '.join(changed)} changed since {first} read it. Run "
        f"{', then '.join([*stale, stage.name])} (./spark-submit.sh {first} ...), or refresh, which runs what is needed"
    )


def stale_stages(records: Sequence[StageRecord], reads: Iterable[str]) -> dict[str, list[str]]:
    """Stages that must run again before anything that reads `reads`, in that order, each with those of its inputs that
    are no longer what it read: written again, gone, or to be written again."""
    writers = {name: record for record in records for name in record.writes}
    stale: dict[str, list[str]] = {}
    seen: set[str] = set()

    def visit(record: StageRecord) -> None:
        if record.stage in seen:
            return
        seen.add(record.stage)
        changed = []
        for name, key in record.inputs.items():
            writer = writers.get(name)
            if writer is not None:
                visit(writer)
            if writer is None or writer.key != key or writer.stage in stale:
                changed.append(name)
        if changed:
            stale[record.stage] = changed

    for name in reads:
        if name in writers:  # whoever reads what is not there says so
            visit(writers[name])
    return stale


def _check_may_run(run: Run, stage: Stage, config: Config) -> None:
    """A stage writes where it wrote before: not in a run that was published, and not from inputs that are not whole."""
    if stage.name != "publish" and run.id in (p.run for p in history(run.fs, run.root)):
        raise StoreError(
            f"run {run.id} was published, and its settings, its inputs or the release of xmcspark have changed since "
            f"(stage {stage.name} would run again): what is served is never written over. Give the new run another "
            "name with --run"
        )
    absent = [name for name, key in run.input_keys(stage.needed(config)).items() if key == "absent"]
    if absent:
        raise StoreError(
            f"run {run.id}: {', '.join(absent)} is not there or not finished, and {stage.name} needs it; run the "
            "stages before it first (refresh runs all of them)"
        )


def summary_table(outcomes: Sequence[Outcome], seconds: float = 0.0) -> str:
    """Stage, rows written, seconds and share of the time, as text. `seconds`: of the whole job, where that is more than
    its stages."""
    spent_in_stages = sum(outcome.record.seconds for outcome in outcomes if not outcome.skipped)
    total = max(spent_in_stages, seconds)
    lines = [f"{'stage':<10} {'rows':>12} {'seconds':>9} {'share':>6}"]
    for outcome in outcomes:
        record = outcome.record
        rows = f"{sum(record.rows.values()):,}"
        spent = "skipped" if outcome.skipped else f"{record.seconds:.1f}"
        share = "" if outcome.skipped or not total else f"{record.seconds / total:.0%}"
        lines.append(f"{record.stage:<10} {rows:>12} {spent:>9} {share:>6}")
    if total > spent_in_stages:
        rest = total - spent_in_stages
        lines.append(
            f"{'around':<10} {'':>12} {rest:>9.1f} {rest / total:>6.0%}  (opening the run, the report)"
        )
    lines.append(f"{'all':<10} {'':>12} {total:>9.1f}")
    return "\n".join(lines)
