"""The refresh: all stages from logs to a published model, then what a person wants to see: where the time went, how
good the model is, a few answers, and where everything lies."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from math import isfinite
from typing import Any

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.errors import RefusedError
from xmcspark.flow_spark import STAGES, dated, open_run
from xmcspark.quality.metrics_text import metrics_text
from xmcspark.report.data import ReportData
from xmcspark.report.page import report_page
from xmcspark.report.report_spark import gathered
from xmcspark.serving.bundle import MANIFEST
from xmcspark.store.filesystem import joined
from xmcspark.store.publish import write_run_manifest
from xmcspark.store.runner import Outcome, run_stages, summary_table
from xmcspark.store.runs import Run

log = logging.getLogger(__name__)


def refresh(spark: SparkSession, config: Config) -> Run:
    """Runs what is not finished, writes manifest, summary and report, and prints an overview. A run that the gates
    refuse has its report, too: that is when people look."""
    started = time.monotonic()
    ensure_sample_logs(spark, config)
    config = dated(spark, config)
    run, base = open_run(spark, config)
    log.info("run %s in %s%s", run.id, run.root, f", from {base.id}" if base is not None else "")
    outcomes = run_stages(spark, config, run, base, STAGES[:-1])
    try:
        outcomes += run_stages(spark, config, run, base, STAGES[-1:])
    except RefusedError as error:
        try:
            report = write_findings(spark, config, run, base, outcomes, started, str(error))
        except Exception:  # that the run was refused matters more, and a scheduler must hear it
            log.exception("the report of the refused run could not be written")
        else:
            _print_overview(run, outcomes, report)
        clear_scratch(run)
        raise
    report = write_findings(spark, config, run, base, outcomes, started)
    _print_overview(run, outcomes, report)
    clear_scratch(run)
    return run


def clear_scratch(run: Run) -> None:
    """Last of all: an executor that joins late still fetches from it."""
    run.fs.delete(joined(run.uri, "scratch"))


def write_findings(
    spark: SparkSession,
    config: Config,
    run: Run,
    base: Run | None,
    outcomes: list[Outcome],
    started: float,
    refusal: str | None = None,
    method: str | None = None,
) -> ReportData:
    """Manifest, summary and report; `method` is what the report calls it."""
    write_run_manifest(run)
    begun = time.monotonic()
    report = gathered(spark, config, run, base, outcomes, refusal)
    report = replace(report, seconds=time.monotonic() - started, method=method or report.method)
    run.fs.write_text(joined(run.uri, "summary.json"), json.dumps(_summary(report), indent=1) + "\n")
    run.fs.write_text(joined(run.uri, "report.html"), report_page(report))
    log.info("report: done in %.1f s", time.monotonic() - begun)
    return report


def _summary(report: ReportData) -> dict[str, Any]:
    return {
        "run": report.run,
        "seconds": report.seconds,
        "stages": [
            {
                "stage": stage.stage,
                "skipped": stage.skipped,
                "seconds": stage.seconds,
                "rows": stage.rows,
                "notes": stage.notes,
            }
            for stage in report.stages
        ],
        "metrics": {
            f"{row.metric}@{row.k}": row.value if isfinite(row.value) else None  # JSON has no NaN
            for row in report.metrics
            if row.bin == "all"
        },
        "profile": None if report.profile is None else report.profile.to_json(),
    }


def _print_overview(run: Run, outcomes: list[Outcome], report: ReportData) -> None:
    place, root = (run.fs.local_path(uri) or uri for uri in (run.uri, run.root))
    print(f"\n{summary_table(outcomes, report.seconds)}\n")
    if report.metrics:
        print(f"{metrics_text(report.metrics)}\n")
    for example in report.examples:
        print(f'"{example.text}"')
        for name, score, right in example.answers[:3]:
            print(f"   {score:.3f}  {name}{'  (clicked)' if right else ''}")
    print(
        f"\ntables   {place}/tables\nreport   {place}/report.html\nsummary  {place}/summary.json\n"
        f"bundle   {place}/bundle\n{_served(report, root)}\n"
        f"Next: {_next_step(run, refused=report.refusal is not None)}\n"
        "or ask the run in SQL (docs/cookbook.md):\n"
        f"  ./spark-submit.sh sql --root {root} --run {run.id}"
    )


def _served(report: ReportData, root: str) -> str:
    """That others get this model from now on, which not everybody who tries something wants."""
    if report.publication is None:
        return ""
    return (
        f"served   this run, as publication {report.publication} of {root}; for an experiment that should not be: "
        "--set publish.enabled=false\n"
    )


def _next_step(run: Run, refused: bool = False) -> str:
    """How to ask the model, by where it is and whether it is whole."""
    bundle = run.folder("bundle")
    if refused:
        return "look at why it was refused, below and in the report,"
    if not run.fs.exists(joined(bundle, MANIFEST)):  # which publish writes
        return (
            "the run is not published, and its model can be opened only then:\n"
            f"  ./spark-submit.sh publish --run {run.id} --set publish.enabled=true --config ..."
        )
    local = run.fs.local_path(bundle)
    ask = f"import xmcspark; xmcspark.load({local or 'bundle'!r}).predict(['a query'], k=3)"
    if local is not None:
        return f"ask the model from Python (.venv/bin/python), without Spark:\n  {ask}"
    return f"copy the model to a disk and ask it from Python, without Spark:\n  hadoop fs -get {bundle} bundle\n  {ask}"
