"""Gathers what the report of a run shows. Decides what is read: notes of the stages where they say it, tables that the
driver wrote by itself, and of the others a handful of jobs, each one scan that comes back as a few rows. What grows
with the data is never collected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from xmcspark.config.configuration import Config
from xmcspark.quality.metric_sums import MetricRow
from xmcspark.report.counts import counts_of, head_facts
from xmcspark.report.data import (
    TAIL_BELOW,
    Example,
    Level,
    Neighbour,
    Neighbours,
    Previous,
    Profile,
    ReportData,
    Spread,
    StageTime,
    UnitLoad,
)
from xmcspark.report.distribution import Distribution
from xmcspark.report.instance_totals import INSTANCE_TOTALS, instance_totals
from xmcspark.store.direct_tables import rows_of_run
from xmcspark.store.filesystem import joined
from xmcspark.store.published import Published, history
from xmcspark.store.runner import Outcome
from xmcspark.store.runs import Run
from xmcspark.store.side_files import local_copy
from xmcspark.store.stage import read_table
from xmcspark.store.tables import TABLES

_AT_ONCE = 3  # jobs: most of the time of a small one is spent on planning it
_SAMPLE_LABELS = 6  # shown with those they occur with ...
_SHOWN_NEIGHBOURS = 6  # ... and of these the most likely


def gathered(
    spark: SparkSession,
    config: Config,
    run: Run,
    base: Run | None,
    outcomes: Sequence[Outcome],
    refusal: str | None = None,
) -> ReportData:
    """Everything but the seconds of the whole, which are known last."""
    stages = tuple(_stage_time(outcome) for outcome in outcomes)
    notes = {stage.stage: stage.notes for stage in stages}
    past = history(run.fs, run.root)
    before = _published_before(run, base, past)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        examples = pool.submit(_example_rows, spark, run, config.refresh.examples)
        pairs = pool.submit(_neighbour_rows, spark, run)
        instances = pool.submit(_instance_totals, spark, run)
        labels = pool.submit(_label_totals, spark, run)
        levels = pool.submit(_levels, spark, run)
        names = _names(spark, run, _labels_shown(examples.result(), pairs.result()))
    return ReportData(
        run.id,
        config.method,
        datetime.now(UTC).isoformat(sep=" ", timespec="minutes").removesuffix("+00:00"),
        seconds=0.0,
        base=base.id if base is not None else None,
        publication=_number(run, past),
        refusal=refusal,
        facts=head_facts(notes),
        metrics=_metrics(run),
        stages=stages,
        levels=levels.result(),
        units=tuple(sorted(UnitLoad(**row) for row in _driver_rows(run, "sub_tree_load", UnitLoad._fields))),
        profile=_profile(labels.result(), instances.result()),
        counts=counts_of(notes),
        previous=None if before is None else _previous(*before),
        examples=tuple(_example(row, names) for row in examples.result()),
        neighbours=tuple(_neighbours(row, names) for row in pairs.result()),
    )


def _stage_time(outcome: Outcome) -> StageTime:
    record = outcome.record
    return StageTime(
        record.stage,
        record.seconds,
        outcome.skipped,
        record.rows,
        record.notes,
        record.measured.get("shuffle_bytes"),
        record.measured.get("slots"),
    )


# ------------------------------------------------------------------------------- the run before


def _published_before(run: Run, base: Run | None, past: list[Published]) -> tuple[Run, str | None] | None:
    """The run that was served when this one came, or its base; with when it was published."""
    ids = [publication.run for publication in past]
    earlier = past[: ids.index(run.id)] if run.id in ids else past
    if earlier:
        return Run(run.fs, run.root, earlier[-1].run), earlier[-1].published_at
    return None if base is None else (base, None)


def _previous(run: Run, published_at: str | None) -> Previous:
    """As far as it was not pruned."""
    notes = {record.stage: record.notes for record in run.records()}
    return Previous(run.id, published_at, _metrics(run), counts_of(notes), _kept_profile(run))


def _kept_profile(run: Run) -> Profile | None:
    """That of its summary; None if it has none, as runs of older releases."""
    try:
        return Profile.of_json(json.loads(run.fs.read_text(joined(run.uri, "summary.json")))["profile"])
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def _number(run: Run, past: list[Published]) -> int | None:
    """Of its last publication."""
    return max((number for number, one in enumerate(past, start=1) if one.run == run.id), default=None)


# -------------------------------------------------------------------------------------- tables


def _driver_rows(run: Run, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """A table that the driver wrote from rows of its own, read as it was written: no job. None if it is not there."""
    if not run.fs.exists(run.table(table)):
        return []
    schema = to_arrow_schema(TABLES[table].schema)
    files = ds.dataset(local_copy(run.fs, run.table(table)), schema=schema, format="parquet")
    rows: list[dict[str, Any]] = files.to_table(columns=list(columns)).to_pylist()
    return rows


def _metrics(run: Run) -> tuple[MetricRow, ...]:
    """Of the test split."""
    rows = _driver_rows(run, "metrics", ("split", *MetricRow._fields))
    return tuple(_metric(row) for row in rows if row["split"] == "test")


def _metric(row: Any) -> MetricRow:
    value, low, high = (
        float("nan") if row[name] is None else float(row[name]) for name in ("value", "low", "high")
    )
    return MetricRow(row["metric"], row["k"], row["bin"], value, low, high, row["n"] or 0)


def _label_totals(spark: SparkSession, run: Run) -> list[Any]:
    positives = F.coalesce("positives", F.lit(0)).cast("bigint")
    labels = read_table(spark, run, "labels").where("active").select(positives.alias("n"))
    in_tail = F.col("n") < TAIL_BELOW
    return list(labels.groupBy(_bits("n").alias("place"), in_tail.alias("tail")).agg(*_totals("n")).collect())


def _instance_totals(spark: SparkSession, run: Run) -> list[Any]:
    """By labels and by length at once: at most some hundred rows of each task. In Arrow, because Spark is slow at
    lists."""
    rows = rows_of_run(spark, run, ("instances",))
    return list(rows.map(("split", "labels", "text"), instance_totals, INSTANCE_TOTALS).collect())


def _profile(labels: list[Any], instances: list[Any]) -> Profile:
    train, test = ([row for row in instances if row["split"] == split] for split in ("train", "test"))
    tail = [row for row in labels if row["tail"]]
    return Profile(
        sum(row["labels_count"] for row in train),
        sum(row["labels_count"] for row in test),
        sum(row["n_count"] for row in labels),
        _distribution(labels, "n", "place"),
        _distribution(train, "labels", "labels_place"),
        _distribution(train, "length", "length_place"),
        sum(row["n_count"] for row in tail),
        sum(row["n_sum"] for row in tail),
    )


def _bits(name: str) -> Column:
    """A number's length in bits, its bin in a `Distribution`. Exact, as logarithms are not."""
    return F.when(F.col(name) <= 0, 0).otherwise(F.length(F.bin(name)))


def _totals(name: str) -> list[Column]:
    return [
        F.count(F.lit(1)).alias(f"{name}_count"),
        F.sum(name).alias(f"{name}_sum"),
        F.max(name).alias(f"{name}_max"),
    ]


def _distribution(rows: Iterable[Any], name: str, place: str) -> Distribution:
    return Distribution.of(
        (row[place], row[f"{name}_count"], row[f"{name}_sum"], row[f"{name}_max"]) for row in rows
    )


def _levels(spark: SparkSession, run: Run) -> tuple[Level, ...]:
    """None of a run that was fused from others."""
    if not run.fs.exists(run.table("tree_nodes")):
        return ()
    numbers = ("n_children", "n_labels", "n_rows")
    rows = (
        read_table(spark, run, "tree_nodes")
        .groupBy("member", "level")
        .agg(
            F.count(F.lit(1)).alias("nodes"),
            *(
                F.array(F.min(name), F.expr(f"percentile({name}, 0.5)"), F.max(name)).alias(name)
                for name in numbers
            ),
        )
        .collect()
    )
    ordered = sorted(rows, key=lambda row: (row["member"], row["level"]))
    return tuple(
        Level(row["member"], row["level"], row["nodes"], *(Spread(*map(int, row[name])) for name in numbers))
        for row in ordered
    )


# --------------------------------------------------------------------------- a few rows to look at


def _example_rows(spark: SparkSession, run: Run, count: int) -> list[dict[str, Any]]:
    """A few test instances with what was predicted for them, the same ones each time."""
    if not count:
        return []
    predictions = (
        read_table(spark, run, "predictions").where("split = 'test'").select("id", "labels", "scores")
    )
    # A handful: kept by each task, then merged.
    chosen = predictions.orderBy(F.xxhash64("id"), "id").limit(count).collect()
    instances = read_table(spark, run, "instances").where("split = 'test'")
    found = instances.where(F.col("id").isin([row["id"] for row in chosen])).select("id", "text", "labels")
    texts = {row["id"]: row for row in found.collect()}
    return [
        {**row.asDict(), "text": texts[row["id"]]["text"], "true": texts[row["id"]]["labels"]}
        for row in chosen
    ]


def _neighbour_rows(spark: SparkSession, run: Run) -> list[Any]:
    """A few labels that occur with others, the same ones each time. Of rare ones there is little to see: they come
    last."""
    if "cooccurrence" not in TABLES or not run.fs.exists(run.table("cooccurrence")):
        return []
    own = F.expr("get(counts, cast(array_position(neighbours, label) as int) - 1)")
    together = F.arrays_zip("probability", "counts", "neighbours")
    chosen = (
        read_table(spark, run, "cooccurrence")
        .where(F.size("neighbours") > 1)
        .withColumn("instances", own)
        .orderBy(F.col("instances") < TAIL_BELOW, F.xxhash64("label"), "label")
        .limit(_SAMPLE_LABELS)
    )
    best = F.slice(F.sort_array(together, asc=False), 1, _SHOWN_NEIGHBOURS + 1)  # itself is one of them
    return list(
        chosen.select("label", F.size("neighbours").alias("known"), best.alias("best"), "instances").collect()
    )


def _labels_shown(examples: list[Any], pairs: list[Any]) -> list[int]:
    shown = {label for row in examples for label in row["labels"]}
    shown |= {row["label"] for row in pairs} | {one["neighbours"] for row in pairs for one in row["best"]}
    return sorted(shown)


def _names(spark: SparkSession, run: Run, wanted: list[int]) -> dict[int, str]:
    if not wanted:
        return {}
    labels: DataFrame = read_table(spark, run, "labels").where(F.col("id").isin(wanted))
    return {row["id"]: row["text"] or row["key"] for row in labels.select("id", "key", "text").collect()}


def _example(row: Any, names: dict[int, str]) -> Example:
    true = set(row["true"])
    answers = [
        (names[label], float(score), label in true)
        for label, score in zip(row["labels"], row["scores"], strict=True)
    ]
    return Example(row["text"] or "", answers, len(true))


def _neighbours(row: Any, names: dict[int, str]) -> Neighbours:
    others = [one for one in row["best"] if one["neighbours"] != row["label"]][:_SHOWN_NEIGHBOURS]
    others.sort(key=lambda one: (-one["probability"], one["neighbours"]))
    best = [Neighbour(names[one["neighbours"]], one["counts"], one["probability"]) for one in others]
    return Neighbours(names[row["label"]], row["instances"] or 0, row["known"] - 1, best)
