"""The refresh: all stages from logs to a published model, then what a person wants to see: where the time went, how
good the model is, a few answers, and where everything lies."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.flow_spark import STAGES, dated, open_run
from xmcspark.quality.metrics_text import metrics_text
from xmcspark.quality.report import Example, report_page
from xmcspark.serving.bundle import MANIFEST
from xmcspark.store.filesystem import joined
from xmcspark.store.publish import write_run_manifest
from xmcspark.store.runner import Outcome, run_stages, summary_table
from xmcspark.store.runs import Run
from xmcspark.store.stage import read_table

log = logging.getLogger(__name__)


def refresh(spark: SparkSession, config: Config) -> Run:
    """Runs what is not finished, writes manifest, summary and report, and prints an overview."""
    started = time.monotonic()
    ensure_sample_logs(spark, config)
    config = dated(spark, config)
    run, base = open_run(spark, config)
    log.info("run %s in %s%s", run.id, run.root, f", from {base.id}" if base is not None else "")
    outcomes = run_stages(spark, config, run, base, STAGES)
    write_run_manifest(run)
    metrics: list[Any] = read_table(spark, run, "metrics").where("split = 'test'").collect()
    examples = _examples(spark, run, config.refresh.examples)
    summary = _summary(run, outcomes, metrics, time.monotonic() - started)
    run.fs.write_text(joined(run.uri, "summary.json"), json.dumps(summary, indent=1) + "\n")
    run.fs.write_text(joined(run.uri, "report.html"), report_page(summary, metrics, examples))
    _print_overview(run, outcomes, metrics, examples)
    run.fs.delete(joined(run.uri, "scratch"))  # last: an executor that joins late still fetches from it
    return run


def _summary(run: Run, outcomes: list[Outcome], metrics: list[Any], seconds: float) -> dict[str, Any]:
    return {
        "run": run.id,
        "seconds": seconds,
        "stages": [
            {
                "stage": outcome.record.stage,
                "skipped": outcome.skipped,
                "seconds": outcome.record.seconds,
                "rows": outcome.record.rows,
                "notes": outcome.record.notes,
            }
            for outcome in outcomes
        ],
        "metrics": {f"{row['metric']}@{row['k']}": row["value"] for row in metrics if row["bin"] == "all"},
    }


def _examples(spark: SparkSession, run: Run, count: int) -> list[Example]:
    """A few test instances with what was predicted for them, the same ones each time."""
    if not count:
        return []
    predictions = read_table(spark, run, "predictions").where("split = 'test'")
    chosen = predictions.orderBy(F.xxhash64("id"), "id").limit(
        count
    )  # a handful: kept by each task, then merged
    texts = (
        read_table(spark, run, "instances")
        .where("split = 'test'")
        .select("id", "text", F.col("labels").alias("true"))
    )
    rows = chosen.join(texts, "id").orderBy(F.xxhash64("id"), "id").collect()
    wanted = sorted({label for row in rows for label in row.labels})
    names = _names(read_table(spark, run, "labels"), wanted)
    return [
        Example(
            row.text,
            [
                (names[label], score, label in row.true)
                for label, score in zip(row.labels, row.scores, strict=True)
            ],
        )
        for row in rows
    ]


def _names(labels: DataFrame, wanted: list[int]) -> dict[int, str]:
    rows = labels.where(F.col("id").isin(wanted)).select("id", "key", "text").collect()
    return {row.id: row.text or row.key for row in rows}


def _print_overview(run: Run, outcomes: list[Outcome], metrics: list[Any], examples: list[Example]) -> None:
    place = run.fs.local_path(run.uri) or run.uri
    print(f"\n{summary_table(outcomes)}\n")
    if metrics:
        print(f"{metrics_text(metrics)}\n")
    for example in examples:
        print(f'"{example.text}"')
        for name, score, right in example.answers[:3]:
            print(f"   {score:.3f}  {name}{'  (clicked)' if right else ''}")
    print(
        f"\ntables   {place}/tables\nreport   {place}/report.html\nsummary  {place}/summary.json\n"
        f"bundle   {place}/bundle\n\n"
        f"Next: {_next_step(run)}\n"
        "or look into a table:\n"
        f"  spark.read.parquet({place + '/tables/tree_nodes'!r}).orderBy('path').show()"
    )


def _next_step(run: Run) -> str:
    """How to ask the model, by where it is and whether it is whole."""
    bundle = run.folder("bundle")
    if not run.fs.exists(joined(bundle, MANIFEST)):  # which publish writes
        return (
            "the run is not published, and its model can be opened only then:\n"
            f"  ./spark-submit.sh publish --run {run.id} --set publish.enabled=true --config ..."
        )
    local = run.fs.local_path(bundle)
    ask = f"import xmcspark; xmcspark.load({local or 'bundle'!r}).predict(['a query'], k=3)"
    if local is not None:
        return f"ask the model from Python, without Spark:\n  {ask}"
    return f"copy the model to a disk and ask it from Python, without Spark:\n  hadoop fs -get {bundle} bundle\n  {ask}"
