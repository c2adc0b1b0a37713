"""The augment stage: label texts become training instances whose targets are what occurs together with the label
(Gandalf, paper 5, chapter 1), or one of its variants and rivals. Decides whether that is done: as told, or, with
`augment.gandalf: auto`, if it helps on a validation split."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.errors import InputError
from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.cooccurrence import Neighbours, joined_neighbours
from xmcspark.labels.cooccurrence_spark import (
    neighbours_of_lists,
    own_counts,
    sent_graph,
    sent_own_counts,
    write_cooccurrence,
)
from xmcspark.labels.label_sampling import LabelSample
from xmcspark.labels.mixup_spark import write_mixtures
from xmcspark.labels.positives_spark import label_positives
from xmcspark.labels.random_walk import Walker
from xmcspark.labels.soft_targets import soft_targets
from xmcspark.labels.trial import Trial
from xmcspark.labels.trial_spark import tried
from xmcspark.matchers.settings import TrainSettings
from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.row_hash import augmented_hashes
from xmcspark.store.direct_writing import entries_of, write_mapped
from xmcspark.store.progress import tell
from xmcspark.store.side_files import SideFolder
from xmcspark.store.stage import Context, Stage
from xmcspark.store.tables import TABLES

log = logging.getLogger(__name__)

_COLUMNS = ("id", "key", "text", "positives", "neighbours", "counts")
_NAMES = TABLES["augmented"].names
_MEASURES = {"pairs": entries_of("labels")}
_TRIAL_KEYS = (  # how the work is laid out is not among them
    *("text", "pifa", "tree"),
    *(f"train.{field.name}" for field in fields(TrainSettings) if field.name != "seed"),
    *(f"predict.{name}" for name in ("beam", "transform", "combine", "path_weight")),
    *(f"evaluate.{name}" for name in ("propensity", "propensity_a", "propensity_b")),
)
_OVERLAP = 0.01  # share of instances that are labels too, from which on the user hears of it


def augment(context: Context) -> None:
    settings = context.config.augment
    if settings.mixup != "none":
        context.write_few("cooccurrence", [])
        rows = write_mixtures(context)
        context.note(rows=rows, observed_share=1.0, made_share=1.0, variant=settings.mixup)
        return
    if settings.gandalf is False:
        _write_nothing(context)
        context.note(rows=0, observed_share=1.0, made_share=1.0, variant="none")
        return
    texts = _label_texts(context)
    tell("augment", "label co-occurrence")
    context.note(**write_cooccurrence(context, texts.ids))
    trial = _tried(context)
    if settings.gandalf == "auto" and trial is not None and not trial.use:
        context.write_few("augmented", [])
        context.note(rows=0, observed_share=1.0, made_share=1.0, variant="none")
        log.info("augment: not used: %s", trial.why)
        return
    _warn_of_overlap(context)
    tell("augment", "label texts as instances")
    rows = _write_label_rows(context, texts)
    context.note(rows=rows, variant=settings.targets, **_shares(settings, texts.instances, rows))


@dataclass(frozen=True)
class _LabelTexts:
    ids: int  # the largest id + 1
    with_text: int  # active labels that have one
    instances: int  # in training


def _label_texts(context: Context) -> _LabelTexts:
    labels = context.read("labels")
    row = labels.agg(F.max("id").alias("last"), F.count_if(_usable()).alias("usable")).first()
    assert row is not None
    if not row["usable"]:
        raise InputError(
            "augment.gandalf needs label texts, and no label of this corpus has one: give them (input.labels with a "
            "column text, or ingest.columns.label_text for logs), or set augment.gandalf to false"
        )
    return _LabelTexts(
        int(row["last"]) + 1, int(row["usable"]), int(context.noted("corpus")["train_instances"])
    )


def _usable() -> Any:
    return F.col("active") & (F.length(F.trim(F.coalesce("text", F.lit("")))) > 0)


def _write_nothing(context: Context) -> None:
    context.write_few("cooccurrence", [])
    context.write_few("augmented", [])


def _tried(context: Context) -> Trial | None:
    """What a validation split says; None if it was not asked."""
    settings = context.config.augment
    if settings.validation_share == 0:
        return None
    tell("augment", "trying it on a validation split")
    trial = tried(context)
    context.note(trial=trial.facts())
    if settings.gandalf is True and not trial.use:
        log.warning(
            "augment: augment.gandalf is true, but it loses on a validation split: %s. Set it to auto",
            trial.why,
        )
    return trial


def _warn_of_overlap(context: Context) -> None:
    """An instance that is a label too will find itself, now that its text was taught to."""
    if context.config.predict.exclude_self or context.config.input.exclude is not None:
        return
    keys = context.read("labels").where("active").select(F.col("key").alias("id"))
    instances = context.read("instances").where("split = 'test'").select("id")
    found = instances.join(keys, "id", "left_semi").count()
    total = int(context.noted("corpus")["test_instances"])
    context.note(instances_that_are_labels=found)
    if total and found / total > _OVERLAP:
        log.warning(
            "augment: %d of %d test instances have the id of a label, and label texts are now trained to find "
            "themselves: set predict.exclude_self=true, or give input.exclude",
            found,
            total,
        )


def _shares(settings: AugmentSettings, instances: int, rows: int) -> dict[str, float]:
    """How much of the training instances stays."""
    if settings.training == "labels":
        return {"observed_share": 0.0, "made_share": 1.0}
    if settings.training == "sample":
        share = instances / max(1, instances + rows)
        return {"observed_share": share, "made_share": share}
    return {"observed_share": 1.0, "made_share": 1.0}


# ---- label texts as instances ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _LabelRows:
    """What every task needs to know."""

    settings: AugmentSettings
    sample: LabelSample
    graph: SideFolder | None  # for walks
    own: SideFolder | None  # how often each label occurs, for targets that look at both
    label_ids: int
    seed: int


def _write_label_rows(context: Context, texts: _LabelTexts) -> int:
    settings = context.config.augment
    labels = context.read("labels").where(_usable())
    plan = _LabelRows(
        settings,
        LabelSample.of(label_positives(context.read("labels")), settings, context.config.seed),
        sent_graph(context) if settings.graph == "random-walk" else None,
        sent_own_counts(context, texts.ids) if settings.targets == "glas" else None,
        texts.ids,
        context.config.seed,
    )
    table = context.spark.read.schema(TABLES["cooccurrence"].schema).parquet(
        context.run.table("cooccurrence")
    )
    graph = table.select(F.col("label").alias("id"), "neighbours", "counts")
    joined = labels.join(graph, "id", "left").select(*_COLUMNS)
    rows, found = write_mapped(context, "augmented", joined, partial(_label_rows, plan), _MEASURES)
    context.rows["augmented"] = rows
    context.note(labels_with_text=texts.with_text, soft_pairs=int(found["pairs"]))
    return rows


def _label_rows(plan: _LabelRows, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    walker, settings = None, plan.settings
    if plan.graph is not None:
        graph = Neighbours.load(plan.graph.path())
        walker = Walker(graph, settings.restart, settings.walk_length, plan.seed)
    for batch in batches:
        ids = batch.column("id").to_numpy().astype(np.int32)
        positives = batch.column("positives").to_numpy(zero_copy_only=False)
        batch = batch.filter(pa.array(plan.sample.takes(ids, positives)))
        if batch.num_rows:
            batch = batch.sort_by("id")
            yield _augmented(batch, *_targets(plan, walker, batch), origin=settings.targets)


def _targets(plan: _LabelRows, walker: Walker | None, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """(labels, targets) of each label's text."""
    rows = neighbours_of_lists(*(batch.column(name) for name in ("id", "neighbours", "counts")))
    if walker is not None:
        known = np.isin(rows.labels, walker.labels)  # others have no instance
        visits, _ = walker.walked(rows.labels[known]).largest(plan.settings.max_neighbours)
        rows = joined_neighbours([visits, rows.take(np.flatnonzero(~known))])
    own = None if plan.own is None else own_counts(plan.own)
    return lists_of_csr(soft_targets(rows, plan.settings, own).to_csr(plan.label_ids))


def _augmented(batch: pa.RecordBatch, labels: pa.Array, targets: pa.Array, origin: str) -> pa.RecordBatch:
    size, texts = batch.num_rows, batch.column("text")
    keys = batch.column("key").to_pylist()
    columns = {
        "id": pa.array([f"label:{key}" for key in keys], pa.string()),
        "split": pa.array(["train"] * size, pa.string()),
        "origin": pa.array([origin] * size, pa.string()),
        "label": batch.column("id"),
        "text": texts,
        "labels": labels,
        "targets": targets,
        "relevance": targets,  # paper 4: Y itself where no other is given
        "partner_text": pa.nulls(size, pa.string()),
        "mix": pa.nulls(size, pa.float32()),
        "row_hash": pa.array(augmented_hashes(texts, labels, targets, targets)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _NAMES], names=_NAMES)


def _tried_with(config: Config) -> tuple[str, ...]:
    """What the trial is decided by, where it decides."""
    return _TRIAL_KEYS if config.augment.gandalf == "auto" else ()


STAGE = Stage(
    "augment",
    2,
    ("augment", "seed", "predict.exclude_self"),
    reads=("instances", "labels", "exclude"),
    writes=("cooccurrence", "augmented"),
    run=augment,
    more_keys_of=_tried_with,
)
