"""The fusion of finished runs: their predictions for the same instances become one ranking, in a run of its own that
has no model but predictions, metrics and a report as others have. Decides that labels are matched by key, in the first
run's numbers, and that runs on other instances, or with other true labels, are refused.

Its stages are `corpus` (the first run's instances, the labels of all), `predict` and `evaluate`: skipped when they are
finished, as in any run."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.command_spark import Job, run_job
from xmcspark.config.configuration import Config
from xmcspark.errors import ConfigError, InputError
from xmcspark.flow_spark import run_document
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.fuse_options import add_fuse_options
from xmcspark.matchers.predictions_arrow import lists_of_predictions, predictions_of_lists
from xmcspark.quality import evaluate_spark
from xmcspark.quality.metrics_text import metrics_text
from xmcspark.quality.same_instances_spark import (
    check_instances,
    counted,
    excludes_self,
    named_run,
    negative_scores,
    numbers_in,
    opened_numbers,
    reading_context,
    send_numbers,
    side,
)
from xmcspark.refresh_spark import write_findings
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.runner import run_stages, summary_table
from xmcspark.store.runs import Run
from xmcspark.store.side_files import SideFolder
from xmcspark.store.stage import Context, Stage, read_table

log = logging.getLogger(__name__)

METHOD = "fused"  # in the tables, where other runs have their method
_AS_THEY_ARE: SideFolder | None = None  # the numbers of the first run's labels


@dataclass(frozen=True)
class Fusing:
    """What is asked for."""

    members: tuple[Run, ...]
    fusion: str  # average, rank or normalised: see `fuse`
    weights: tuple[float, ...]
    top_k: int

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.members):
            raise InputError(
                f"--weights has {len(self.weights)} numbers for {len(self.members)} runs: give one for each"
            )
        twice = [run.id for at, run in enumerate(self.members) if run.uri in self._uris[:at]]
        if twice:
            raise InputError(
                f"--runs names run {twice[0]} twice: name each once; --weights says how much it counts"
            )
        for member in self.members:
            _check_member(member, self.members[0], self.fusion)

    @property
    def _uris(self) -> list[str]:
        """The same for a run that is named by its id and by its path."""
        return [member.uri for member in self.members]

    @property
    def identity(self) -> list[object]:
        """Changes with what would come out."""
        keys = [[member.uri, member.record("predict").key] for member in self.members]
        return [keys, self.fusion, list(self.weights), self.top_k]

    @property
    def name(self) -> str:
        """Of a run that nobody named: the same for the same members."""
        return f"{METHOD}-{hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:8]}"


def _check_member(member: Run, first: Run, fusion: str) -> None:
    """That it is finished, and that what it predicted can be put beside the others; by its records alone."""
    member.record("predict")
    if excludes_self(member) != excludes_self(first):
        raise InputError(
            f"runs {first.id} and {member.id} have different predict.exclude_self: one may predict what the other must "
            "not; predict one of them again with the same setting"
        )
    if fusion == "average" and (negative := negative_scores(member)):
        raise ConfigError(
            [
                f"run {member.id} has {negative}: its scores may be negative, where a label that a run did not find "
                "(0) would rank above one it found; add --set ensemble.fusion=rank or normalised"
            ]
        )


def run_fuse() -> int:
    """Runs the job; its exit code."""
    return run_job("fuse", _work, add_fuse_options)


def _work(job: Job) -> None:
    names = job.options.runs
    members = tuple(named_run(job.spark, job.config.run.root, name, "--runs") for name in names)
    weights = tuple(job.options.weights or [1.0] * len(members))
    config = job.config
    fusing = Fusing(members, config.ensemble.fusion, weights, config.predict.top_k)
    run = fuse_runs(job.spark, config, fusing)
    place, root = (run.fs.local_path(uri) or uri for uri in (run.uri, run.root))
    print(f"\nrun      {place}\nreport   {place}/report.html")
    print(f"Next: ./spark-submit.sh compare --root {root} --run {run.id} --with {names[0]}")


def fuse_runs(spark: SparkSession, config: Config, fusing: Fusing) -> Run:
    """Makes the run, or finds it made; prints how good it is."""
    started = time.monotonic()
    config = replace(
        config,
        run=replace(config.run, id=config.run.id or fusing.name),
        predict=replace(config.predict, exclude_self=excludes_self(fusing.members[0])),
    )
    run = _opened(spark, config, fusing)
    names = ", ".join(member.id for member in fusing.members)
    log.info("run %s in %s: %s of %s", run.id, run.root, fusing.fusion, names)
    try:
        outcomes = run_stages(spark, config, run, None, stages_of(fusing))
        report = write_findings(spark, config, run, None, outcomes, started, method=f"{METHOD}: {names}")
        print(f"\n{summary_table(outcomes, report.seconds)}\n\n{metrics_text(report.metrics)}")
    finally:
        _clear(run)
    return run


def _clear(run: Run) -> None:
    """Of a run that was refused before anything was finished, nothing stays; of others what is to be read."""
    run.fs.delete(joined(run.uri, "scratch"))
    if not run.records():
        run.fs.delete(joined(run.uri, "run.json"))
        if not run.fs.list(run.uri):
            run.fs.delete(run.uri)


def _opened(spark: SparkSession, config: Config, fusing: Fusing) -> Run:
    """A run of its own: never one that something else was learned in."""
    fs = Filesystem(spark)
    run = Run(fs, config.run.root, str(config.run.id))
    place = joined(run.uri, "run.json")
    if not fs.exists(place):
        fs.create(place, run_document(config, None, fused=[member.uri for member in fusing.members]))
    elif "fused" not in json.loads(fs.read_text(place)):
        raise InputError(
            f"run {run.id} in {run.root} is no fused run: give the run that is to be made another name with --run"
        )
    return run


def stages_of(fusing: Fusing) -> tuple[Stage, ...]:

    def outside(_: Context) -> object:
        return fusing.identity

    return (
        Stage(
            "corpus",
            1,
            ("evaluate.splits",),
            (),
            ("instances", "labels", "exclude"),
            partial(_corpus, fusing),
            external=outside,
        ),
        Stage(
            "predict",
            1,
            ("evaluate.splits",),
            ("labels",),
            ("predictions",),
            partial(_predict, fusing),
            external=outside,
        ),
        replace(evaluate_spark.STAGE, run=partial(evaluate_spark.run, method=METHOD)),
    )


# --------------------------------------------------------------------------------------- corpus


def _corpus(fusing: Fusing, context: Context) -> None:
    """The first run's, and the labels that only others have, as never seen in training. Nothing is written of runs
    that do not belong together."""
    first = fusing.members[0]
    labels, numbers = _all_labels(fusing, context)
    for split, sides in _sides(fusing, context, numbers).items():
        sides.persist()  # it is counted twice
        try:
            _check_sides(fusing, sides, split)
        finally:
            sides.unpersist()
    context.write("labels", labels)
    context.write("instances", read_table(context.spark, first, "instances"))
    if first.fs.exists(first.table("exclude")):
        context.write("exclude", read_table(context.spark, first, "exclude"))
    else:
        context.write_few("exclude", [])
    record = first.find_record("corpus")
    context.note(**({} if record is None else record.notes), fused=[member.id for member in fusing.members])


def _all_labels(fusing: Fusing, context: Context) -> tuple[DataFrame, list[SideFolder | None]]:
    """The label table of all runs, and the numbers that each run's labels have there."""
    known = read_table(context.spark, fusing.members[0], "labels")
    count, sent = _numbered(known), [_AS_THEY_ARE]
    for place, member in enumerate(fusing.members[1:], start=1):
        labels = read_table(context.spark, member, "labels")
        numbers, more = numbers_in(known, count, labels)
        sent.append(send_numbers(context, numbers, f"numbers-{place}"))
        if more:
            new = labels.join(known.select("key"), "key", "left_anti").select(*labels.columns)
            known = known.union(new.mapInArrow(partial(_added_labels, sent[-1]), labels.schema))
            count += more
    return known, sent


def _added_labels(sent: SideFolder | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    numbers = opened_numbers(sent)
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if numbers is not None:
            columns["id"] = pa.array(numbers[columns["id"].to_numpy()])
        columns["positives"] = pa.repeat(pa.scalar(0, pa.int64()), len(batch))
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _numbered(labels: DataFrame) -> int:
    """Numbers given so far."""
    return int(labels.agg(F.coalesce(F.max("id") + 1, F.lit(0))).collect()[0][0])


# -------------------------------------------------------------------------------------- predict


def _predict(fusing: Fusing, context: Context) -> None:
    """All splits that are to be evaluated; corpus has seen that they are the same in all runs."""
    function = partial(_fused, fusing.fusion, fusing.weights, fusing.top_k)
    frames = [
        sides.mapInArrow(function, "id string, labels array<int>, scores array<float>").withColumn(
            "split", F.lit(split)
        )
        for split, sides in _sides(fusing, context, _numbers(fusing, context)).items()
    ]
    found = reduce(DataFrame.unionByName, frames).withColumn("method", F.lit(METHOD))
    context.write("predictions", found.sortWithinPartitions("split", "id"))
    context.note(
        members=[member.id for member in fusing.members],
        fusion=fusing.fusion,
        weights=list(fusing.weights),
        exclude_self=context.config.predict.exclude_self,
        scoring={"trees": 0, "transform": "", "sketch": None, "vectors": False},  # never negative
    )


def _prefix(place: int) -> str:
    return f"m{place}_" if place else ""


def _numbers(fusing: Fusing, context: Context) -> list[SideFolder | None]:
    """The numbers that each run's labels have in the table that corpus wrote."""
    labels = context.read("labels")
    count, sent = _numbered(labels), [_AS_THEY_ARE]
    for place, member in enumerate(fusing.members[1:], start=1):
        numbers, _ = numbers_in(labels, count, read_table(context.spark, member, "labels"))
        sent.append(send_numbers(context, numbers, f"numbers-{place}"))
    return sent


def _sides(fusing: Fusing, context: Context, numbers: Sequence[SideFolder | None]) -> dict[str, DataFrame]:
    """By split: instances of all runs beside each other. Those of the first have no prefix."""
    found = {}
    for split in context.config.evaluate.splits:
        sides = []
        for place, member in enumerate(fusing.members):
            reader = reading_context(context.spark, context.config, member, "fuse")
            sides.append(side(reader, split, numbers[place], _prefix(place)))
        found[split] = reduce(lambda one, other: one.join(other, "id", "full_outer"), sides)
    return found


def _check_sides(fusing: Fusing, sides: DataFrame, split: str) -> None:
    """That all runs have the same instances, and each predicted some of them. A split that is nowhere is left out by
    evaluate, which says so."""
    members = fusing.members
    ranked = [
        F.count_if(F.size(f"{_prefix(place)}predicted") > 0).alias(str(place))
        for place in range(len(members))
    ]
    row = sides.agg(F.count(F.lit(1)).alias("all"), *ranked).collect()[0]
    if not row["all"]:
        return
    found = counted(sides, [_prefix(place) for place in range(1, len(members))])
    for other, (same, left_out) in zip(members[1:], found, strict=True):
        check_instances((members[0], other), split, same, left_out, "fuse")
    silent = [member.id for place, member in enumerate(members) if not row[str(place)]]
    if silent:
        raise InputError(
            f"there are no predictions of split {split} in {', '.join(silent)}: run predict again with this split in "
            f"evaluate.splits, or fuse others with --set evaluate.splits=..."
        )


def _fused(
    fusion: str, weights: Sequence[float], top_k: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        members = [
            predictions_of_lists(
                batch.column(f"{_prefix(place)}predicted"), batch.column(f"{_prefix(place)}scores")
            )
            for place in range(len(weights))
        ]
        found = fuse(members, fusion, weights, top_k)
        yield pa.RecordBatch.from_arrays(
            [batch.column("id"), *lists_of_predictions(found)], ["id", "labels", "scores"]
        )
