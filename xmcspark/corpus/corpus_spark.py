"""The corpus stage: instances with their labels, and labels with their ids, from logs or from a ready corpus. Decides
which kind of source is read, what counts as its state, and what the stage notes of its work."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.corpus.day_window import DayWindow, check_data, day_window
from xmcspark.corpus.exclude_spark import exclusions
from xmcspark.corpus.from_logs_spark import keyed_logs
from xmcspark.corpus.from_repository_spark import files_of, filter_rows, given_repository
from xmcspark.corpus.from_tables_spark import given_tables
from xmcspark.corpus.given_corpus_spark import GivenCorpus, keyed_rows
from xmcspark.corpus.input_files_spark import clear_read_errors, format_of, found, listing, read_parquet
from xmcspark.corpus.instances_spark import instance_counts, mapped_instances, write_counted
from xmcspark.corpus.interactions_spark import dates_available, days, interaction_versions, read_interactions
from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus
from xmcspark.corpus.label_ids_spark import (
    LabelUse,
    label_counts,
    label_table,
    label_use,
    laid_out,
)
from xmcspark.corpus.log_source_spark import log_source
from xmcspark.corpus.numbered_corpus_spark import write_numbered
from xmcspark.errors import ConfigError, InputError
from xmcspark.store.progress import tell
from xmcspark.store.stage import Context, Stage, read_table

log = logging.getLogger(__name__)


def make_corpus(context: Context) -> None:
    with clear_read_errors("input"):
        if _from_logs(context):
            facts = _write_keyed(context, _keyed_logs(context))
        else:
            given = _given(context)
            # With a base run labels have their ids from it, by key.
            if given.numbered is not None and context.base is None:
                facts = write_numbered(context, given)
                _write_exclude(context, _numbers(read_table(context.spark, context.run, "labels")))
            else:
                facts = _write_keyed(context, keyed_rows(context, given))
    for split in ("train", "test"):
        kept = facts[f"{split}_instances"]
        facts[f"{split}_rows_dropped"] = facts.get(f"{split}_rows_read", 0) - kept
        facts[f"{split}_rows_untrained"] = facts.get(f"{split}_rows_with_labels", kept) - kept
    context.note(**facts)
    _refuse_empty(context, facts)
    _tell(facts)


def external_state(context: Context) -> Any:
    """Versions of the days read, or listings of the input files."""
    if not _from_logs(context):
        return {name: _listed(context, name) for name in ("train", "test", "labels", "exclude")}
    window = _window(context)
    versions = interaction_versions(context.fs, _place(context), window.first, window.last)
    return {day.isoformat(): version for day, version in versions.items()}


def _keyed_logs(context: Context) -> KeyedCorpus:
    window = _window(context)
    context.note(first_day=str(window.first), last_day=str(window.last), test_from=str(window.test_from))
    frame = read_interactions(context.spark, context.fs, _place(context), window.first, window.last)
    return keyed_logs(context, frame, window)


def _given(context: Context) -> GivenCorpus:
    uri = found(context, "train")
    assert uri is not None
    if format_of(context.fs, uri, "train") == "parquet":
        return given_tables(context)
    return given_repository(context)


def _from_logs(context: Context) -> bool:
    given = context.config.input
    if given.logs is None and given.train is None:
        raise ConfigError(
            ["input.logs and input.train are both null: give the logs, or a ready corpus, to learn from"]
        )
    return given.logs is not None


def _place(context: Context) -> str:
    return log_source(context.fs, context.config).place(context.fs, context.run.root)


def _window(context: Context) -> DayWindow:
    """The days to read; InputError if those to train or to evaluate on hold nothing."""
    fs, place = context.fs, _place(context)
    ingested = dates_available(fs, place)
    window = day_window(context.config.corpus, context.config.run.date, ingested)
    inside = days(fs, place, window.first, window.last)
    check_data(window, [day for day, found_there in inside.items() if found_there.rows], ingested)
    return window


def _listed(context: Context, setting: str) -> list[Any]:
    uri = found(context, setting)
    if uri is None:
        return []
    files = [uri]
    if setting in ("train", "test") and format_of(context.fs, uri, setting) == "text":
        files = files_of(context.fs, setting, uri)
    return [entry for file in files for entry in listing(context.fs, file)]


def _write_keyed(context: Context, corpus: KeyedCorpus) -> dict[str, Any]:
    """Labels, instances and exclusions of a corpus whose labels go by key."""
    tell("corpus", "counting labels")
    use = label_use(context, corpus)
    table = laid_out(label_table(context, corpus, use), use)
    facts = corpus.notes | write_counted(context, "labels", table, label_counts())
    labels = read_table(context.spark, context.run, "labels")
    tell("corpus", "writing instances")
    rows = mapped_instances(corpus, corpus.rows, _ids(use, labels.where("active")))
    facts |= write_counted(context, "instances", rows, instance_counts())
    facts["max_relevance"] = max(facts.pop("train_max_relevance"), facts.pop("test_max_relevance"))
    _write_exclude(context, _ids(use, labels))
    return facts


def _ids(use: LabelUse, labels: DataFrame) -> DataFrame:
    """(ref, label) of labels that have ids."""
    keyed = labels.select("key", F.col("id").alias("label"))
    return use.table.select("ref", "key").join(keyed, "key").drop("key")


def _numbers(labels: DataFrame) -> DataFrame:
    """(ref, label) where references are the ids."""
    return labels.select(F.col("id").cast("bigint").alias("ref"), F.col("id").alias("label"))


def _write_exclude(context: Context, ids: DataFrame) -> None:
    """`ids`: ref, label."""
    uri = found(context, "exclude")
    if uri is None:
        context.write_few("exclude", [])
        return
    if format_of(context.fs, uri, "exclude") == "parquet":
        given = read_parquet(context, "exclude", uri, {"id": "key", "labels": "keys"})
        given = given.select(F.col("id").cast("string"), F.col("labels").alias("refs"))
    else:
        given = filter_rows(context, uri)
    context.write("exclude", exclusions(given, ids))


def _refuse_empty(context: Context, facts: dict[str, Any]) -> None:
    wants_test = (
        context.config.corpus.test_days > 0 if _from_logs(context) else context.config.input.test is not None
    )
    for split, wanted in (("train", True), ("test", wants_test)):
        if wanted and not facts[f"{split}_instances"]:
            read = facts.get(f"{split}_rows_read", 0)
            raise InputError(
                f"none of the {read} instances of the {split} split has a label that is trained: check that its "
                "labels are those of the training data, and corpus.min_label_count and corpus.relevance"
            )


def _tell(facts: dict[str, Any]) -> None:
    log.info(
        "corpus: %d training and %d test instances, %d labels (%d new, %d retired)",
        facts["train_instances"],
        facts["test_instances"],
        facts["labels_active"],
        facts["labels_new"],
        facts["labels_retired"],
    )
    for split in ("train", "test"):
        if gone := facts[f"{split}_rows_untrained"]:
            rows = facts[f"{split}_rows_with_labels"]
            log.info("corpus: %d of %d %s rows are left out: no label is trained", gone, rows, split)


STAGE = Stage(
    "corpus",
    1,
    ("corpus", "input", "run.date", "text.invalid", "text.nulls"),
    (),
    ("instances", "labels", "exclude"),
    make_corpus,
    external=external_state,
)
