"""The stages in order, from logs to a published model, and the run they work on. Decides a run's name and the base
whose ids it keeps, both fixed when the run is first opened."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.corpus import corpus_spark, ingest_spark
from xmcspark.corpus.log_listing_spark import list_logs
from xmcspark.errors import StoreError
from xmcspark.labels import augment_spark
from xmcspark.matchers import predict_spark, train_spark
from xmcspark.neural import encode_spark
from xmcspark.quality import evaluate_spark
from xmcspark.store import publish
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.published import published
from xmcspark.store.runs import Run
from xmcspark.store.stage import Stage
from xmcspark.text import vectorize_spark
from xmcspark.tree import index_spark

log = logging.getLogger(__name__)

STAGES: tuple[Stage, ...] = (
    ingest_spark.STAGE,
    corpus_spark.STAGE,
    augment_spark.STAGE,
    vectorize_spark.STAGE,
    encode_spark.STAGE,
    index_spark.STAGE,
    train_spark.STAGE,
    predict_spark.STAGE,
    evaluate_spark.STAGE,
    publish.STAGE,
)


# Settings that say where or how, not what: changing one of them is no other run.
_NOT_IN_NAMES = (
    "run",
    "publish",
    "refresh.examples",
    "train.waves",
    "train.task_memory_mb",
    "predict.mode",
    "predict.memory_share",
    "predict.node_memory_mb",
)


def stage_named(name: str) -> Stage:
    return next(stage for stage in STAGES if stage.name == name)


def dated(spark: SparkSession, config: Config) -> Config:
    """The configuration with the day it is for: where none is given, the latest of dated logs, so that all stages of a
    run see the same window. To resume a run after newer logs have come, give its date."""
    if config.input.logs is None or config.run.date is not None or config.ingest.layout == "undated":
        return config
    days = list_logs(Filesystem(spark), config.input.logs, config.ingest.layout).dates()
    if not days:
        return config
    return replace(config, run=replace(config.run, date=days[-1].isoformat()))


def run_id_of(config: Config) -> str:
    """The name given, or one that is the same for the same settings and date."""
    if config.run.id is not None:
        return config.run.id
    settings = config.resolved()
    for key in _NOT_IN_NAMES:
        section, _, name = key.partition(".")
        settings.pop(section) if not name else settings[section].pop(name)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    return f"{config.run.date or 'run'}-{digest}"


def open_run(spark: SparkSession, config: Config, create: bool = True) -> tuple[Run, Run | None]:
    """The run of a configuration and its base run, if any. A run is opened once: who opens it again gets the base
    it started with, whatever was published since. Without `create` it must be there already."""
    fs = Filesystem(spark)
    run = Run(fs, config.run.root, run_id_of(config))
    opened = _opened(run)
    if opened is None:
        if not create:
            raise StoreError(
                f"there is no run {run.id} in {run.root}: give its id with --run, or run refresh first"
            )
        base = config.run.base or _published_id(fs, run)
        fs.create(joined(run.uri, "run.json"), run_document(config, base))
        opened = _opened(run) or {}
    base_id = opened.get("base")
    if config.run.base is not None and config.run.base != base_id:
        raise StoreError(
            f"run {run.id} was started from {base_id or 'no base'}, not from run.base={config.run.base}: give "
            "another run.id"
        )
    if base_id is None:
        return run, None
    base_run = Run(fs, config.run.root, base_id)
    # A run that has its corpus needs its base no more: that may have been pruned.
    if run.find_record("corpus") is None and base_run.find_record("corpus") is None:
        raise StoreError(f"run.base {base_id} is not a run of {run.root} with a finished corpus")
    return run, base_run


def _opened(run: Run) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(run.fs.read_text(joined(run.uri, "run.json")))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreError(f"{run.uri}/run.json is damaged: remove the run or give another run.id") from error
    return document


def _published_id(fs: Filesystem, run: Run) -> str | None:
    current = published(fs, run.root)
    return None if current is None or current.run == run.id else current.run


def run_document(config: Config, base: str | None, **more: Any) -> str:
    """What a run is opened with."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = {
        "base": base,
        "opened_at": now,
        "xmcspark": version("xmcspark"),
        "config": config.resolved(),
        **more,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
