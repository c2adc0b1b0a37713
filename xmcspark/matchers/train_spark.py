"""The train stage: trees, a sketch (mach/train_spark.py) or the vectors of labels that UniDEC searches
(neural/unidec/vectors_spark.py), beside trees or alone. Of trees it plans units, waves and tasks, trains
what no finished wave has, and puts the model together. A wave is finished when its record is there; its rows lie in a
folder of their own, so that waves can be written at the same time and an unfinished one leaves nothing behind."""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from dataclasses import fields, replace
from typing import Any

from xmcspark.config.configuration import Config
from xmcspark.mach.settings import TRAINING_KEYS
from xmcspark.mach.train_spark import MODEL, SKETCH, LoadRow, planned_sketch, train_sketch
from xmcspark.matchers.caps_spark import row_caps
from xmcspark.matchers.levels_spark import forest_of_level
from xmcspark.matchers.members import NEAREST
from xmcspark.matchers.pack_spark import delete_trees, write_model
from xmcspark.matchers.packed_parts import LevelPart
from xmcspark.matchers.schedule import Work, plan_steps, plan_tasks, slot_balance
from xmcspark.matchers.settings import LAYOUT_KEYS, TrainSettings
from xmcspark.matchers.steps import TreeWork, training_steps
from xmcspark.matchers.task_memory import check_memory, derived_limit, work_bytes
from xmcspark.matchers.wave_runs_spark import FinishedWave, WaveRuns
from xmcspark.matchers.wave_spark import ARROW_RECORDS, Forest, Wave
from xmcspark.neural.embeddings_spark import ENCODER
from xmcspark.neural.unidec.settings import SEARCH_KEYS
from xmcspark.neural.unidec.vectors_spark import write_label_search
from xmcspark.store.direct_tables import Rows, rows_of_table
from xmcspark.store.filesystem import joined
from xmcspark.store.session import arrow_batch, slots_of, task_threads
from xmcspark.store.side_files import local_copy, send_folder
from xmcspark.store.small_frames import small_frame
from xmcspark.store.stage import Context, Stage
from xmcspark.text.feature_space_spark import feature_space
from xmcspark.text.feature_table import feature_table
from xmcspark.tree.given_spark import HEAD
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import load_units

log = logging.getLogger(__name__)

_PARTS = "packed"  # folder of scratch
_LOADS = (
    "member int, sub_tree int, node int, nodes int, matchers bigint, wave int, task int, rows bigint, nnz bigint, "
    "predicted_bytes bigint, peak_bytes bigint, predicted_load double, seconds double"
)


def train(context: Context) -> None:
    config = context.config
    for folder, enabled in ((SKETCH, config.mach.enabled), (NEAREST, config.unidec.enabled)):
        if not enabled:
            context.fs.delete(joined(context.folder(MODEL), folder))
    sketch = planned_sketch(context, _memory_limit(context)) if config.mach.enabled else None
    loads: list[LoadRow] = []
    if config.ensemble.members:
        loads += _train_trees(context)
    else:
        delete_trees(context)
        context.fs.delete(context.run.table("matchers"))
    if sketch is not None:
        waves = 1 + max((int(load[5]) for load in loads), default=-1)
        loads += train_sketch(context, sketch, config.ensemble.members, waves)
    if config.unidec.enabled:
        write_label_search(context)
    if not context.rows.get("matchers"):
        context.write_few("matchers", [])
    context.write("sub_tree_load", small_frame(context.spark, sorted(loads), _LOADS), files=1)


def _train_trees(context: Context) -> list[LoadRow]:
    """Writes their matchers and models; rows of sub_tree_load."""
    settings = context.config.train
    trees = _trees(context)
    steps = training_steps(trees, settings)
    forest = _forest(context, trees)
    sizes = _checked_sizes(context, [work for step in steps for work in step], trees, forest)
    slots = slots_of(context.spark)
    numbers = itertools.count()
    planned = [
        [Wave(next(numbers), tuple(plan_tasks(wave, slots))) for wave in waves]
        for waves in plan_steps(steps, settings.waves)
    ]
    waves = [wave for step in planned for wave in step]
    rows = rows_of_table(context, feature_table(context.config), "train")
    with arrow_batch(context.spark, ARROW_RECORDS):
        runs = WaveRuns(context, waves)
        forest = _trained(context, runs, rows, forest, trees, planned)
        context.rows["matchers"] = sum(wave.rows for wave in runs.finished)
        loads = _loads(waves, runs.finished, sizes)
        units = [tree.units for tree in trees]
        write_model(context, forest, units, _weights(runs.finished), _parts(runs.finished))
        context.fs.delete(context.scratch(_PARTS))
    _note(context, waves, runs.finished, forest, slot_balance([wave.tasks for wave in waves], slots))
    return loads


def _trained(
    context: Context,
    runs: WaveRuns,
    rows: Rows,
    forest: Forest,
    trees: list[TreeWork],
    steps: list[list[Wave]],
) -> Forest:
    """Trains what is pending, step by step. The forest, with the caps of nodes that were met."""
    most = context.config.train.max_rows
    if context.config.train.negatives == "tfn":
        crowded = [tree.crowded(most) for tree in trees]
        forest = replace(forest, caps=row_caps(rows, forest, crowded, most))
        runs.train(steps[0], rows, forest)
        return forest
    units, n_rows = [tree.units for tree in trees], int(trees[0].counts.rows[0])
    for level, waves in enumerate(steps):
        if runs.pending(waves):
            weights = _weights(runs.finished)
            forest = forest_of_level(context, rows, forest, level, units, weights, n_rows)
            runs.train(waves, rows, forest)
    return forest


def _trees(context: Context) -> list[TreeWork]:
    """The trees of all members as the driver sees them, mapped into memory."""
    folder = local_copy(context.fs, context.folder("tree"))
    opened = []
    for member in range(context.config.ensemble.members):
        tree = LabelTree.load(folder / str(member))
        opened.append(TreeWork(tree, *load_units(folder / str(member) / "units")))
    return opened


def _forest(context: Context, trees: list[TreeWork]) -> Forest:
    spark, version = context.spark, context.run.key_of_input("tree/")
    alone = context.config.train.alone
    return Forest(
        folder=send_folder(spark, context.fs, context.folder("tree"), version),
        version=f"{context.run.uri} {version}",
        settings=tuple(replace(alone, seed=alone.seed + member) for member in range(len(trees))),
        caps=tuple({} for _ in trees),
        space=feature_space(context),
        run=context.run.id,
        threads=task_threads(spark),
        made_weights=context.config.augment.weights,
        # With matcher-aware negatives units are cut by level while they are trained, and otherwise in the model.
        parts_folder=context.fs.local_path(context.scratch(_PARTS)) if alone.negatives == "tfn" else None,
        **_clusters_as_given(context),
    )


def _clusters_as_given(context: Context) -> dict[str, Any]:
    """What of X-Transformer is not trained here: the matcher of clusters, fine-tuned with the encoder."""
    settings = context.config.x_transformer
    if not settings.enabled:
        return {}
    found: dict[str, Any] = {"inputs": settings.ranker_input}
    if settings.matching == "neural":
        folder = joined(context.folder("encode"), HEAD, "matcher")
        found["head"] = send_folder(context.spark, context.fs, folder, context.run.key_of_input("encode/"))
    return found


def _checked_sizes(
    context: Context, works: list[Work], trees: list[TreeWork], forest: Forest
) -> dict[Work, int]:
    """Expected memory of each unit; InputError if one does not fit into a task."""
    settings, soft = context.config.train, _soft_share(context, trees)
    sizes = {
        work: work_bytes(
            work, forest.space.size, trees[work.member].tree.depth, settings.max_rows, forest.threads, soft
        )
        for work in works
    }
    check_memory(sizes, _memory_limit(context))
    return sizes


def _memory_limit(context: Context) -> int | None:
    """Bytes that one task may take; None if nobody knows."""
    given = context.config.train.task_memory_mb
    return _derived_limit(context) if given is None else given << 20


def _soft_share(context: Context, trees: list[TreeWork]) -> float:
    """Of the training rows, how many an augmentation made."""
    record = context.run.find_record("augment")
    made = 0 if record is None else int(record.notes.get("rows", 0))
    return min(1.0, made / max(1, int(trees[0].counts.rows[0])))


def _derived_limit(context: Context) -> int | None:
    spark = context.spark.sparkContext
    local = (spark.master or "").startswith("local")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return derived_limit(dict(spark.getConf().getAll()), slots_of(context.spark) if local else None, machine)


def _loads(waves: list[Wave], finished: list[FinishedWave], sizes: dict[Work, int]) -> list[LoadRow]:
    rows: list[LoadRow] = []
    for wave, done in zip(waves, finished, strict=True):
        tasks = {work: number for number, task in enumerate(wave.tasks) for work in task.works}
        for work in wave.works:
            if work.piece:
                continue
            unit, cost = work.unit, done.cost_of(work.member, work.unit.unit)
            whole = Work(work.member, unit)
            rows.append(
                (
                    work.member,
                    unit.unit,
                    unit.node,
                    unit.nodes,
                    unit.matchers,
                    wave.number,
                    tasks[work],
                    cost["rows"],
                    cost["nnz"],
                    sizes[whole],
                    cost["peak_bytes"],
                    float(unit.load),
                    float(cost["seconds"]),
                )
            )
    return rows


def _weights(finished: list[FinishedWave]) -> dict[tuple[int, int], int]:
    """Weights of each unit of each member."""
    weights: Counter[tuple[int, int]] = Counter()
    for wave in finished:
        for member, unit in wave.units:
            weights[member, unit] += int(wave.cost_of(member, unit)["weights"])
    return weights


def _parts(finished: list[FinishedWave]) -> dict[tuple[int, int], list[LevelPart]]:
    """Where units of members lie packed already."""
    found = {(member, unit): wave.parts_of(member, unit) for wave in finished for member, unit in wave.units}
    return {unit: parts for unit, parts in found.items() if parts}


def _note(
    context: Context, waves: list[Wave], finished: list[FinishedWave], forest: Forest, balance: float
) -> None:
    costs = [wave.cost_of(*unit) for wave in finished for unit in wave.units]
    unfinished = sum(int(cost["unfinished"]) for cost in costs)
    if unfinished:
        log.warning(
            "%d matchers stopped after train.max_sweeps=%d, before reaching train.tolerance=%g: raise one of them",
            unfinished,
            context.config.train.max_sweeps,
            context.config.train.tolerance,
        )
    context.note(
        waves=len(waves),
        waves_trained=sum(not wave.reused for wave in finished),
        waves_reused=sum(wave.reused for wave in finished),
        units=len({unit for wave in finished for unit in wave.units}),
        tasks=sum(len(wave.tasks) for wave in waves),
        weights=sum(_weights(finished).values()),
        slot_balance=round(balance, 4),
        capped_nodes=sum(len(caps) for caps in forest.caps),
        unfinished_matchers=unfinished,
        solver_cpu_seconds=round(sum(float(c["seconds"]) - float(c["unpack_seconds"]) for c in costs), 3),
        unpack_cpu_seconds=round(sum(float(c["unpack_seconds"]) for c in costs), 3),
        largest_peak_bytes=max((int(cost["peak_bytes"]) for cost in costs), default=0),
    )


def _keys() -> tuple[str, ...]:
    """Settings that decide the matchers; how the work is laid out does not. The seed is the whole run's."""
    names = [field.name for field in fields(TrainSettings) if field.name not in (*LAYOUT_KEYS, "seed")]
    return (
        "seed",
        "ensemble.members",
        "augment.weight",
        "augment.negatives",
        *(f"train.{name}" for name in names),
    )


def _more_keys(config: Config) -> tuple[str, ...]:
    sketch = tuple(f"mach.{name}" for name in TRAINING_KEYS) if config.mach.enabled else ()
    clusters = (
        ("x_transformer.matching", "x_transformer.ranker_input") if config.x_transformer.enabled else ()
    )
    nearest = tuple(f"unidec.{name}" for name in SEARCH_KEYS) if config.unidec.enabled else ()
    return (*sketch, *clusters, *nearest)


def _read(config: Config) -> tuple[str, ...]:
    clusters = ("encode/",) if config.x_transformer.enabled else ()
    nearest = ("encode/", f"{ENCODER}/", "embeddings") if config.unidec.enabled else ()
    trees = ("tree/",) if config.ensemble.members else ()
    return (feature_table(config), "labels", *trees, *clusters, *nearest)


STAGE = Stage(
    "train",
    2,
    _keys(),
    reads=("features", "embeddings", "labels", "tree/", "encode/", f"{ENCODER}/"),
    writes=("matchers", "sub_tree_load", "bundle/model/"),
    run=train,
    reads_of=_read,
    more_keys_of=_more_keys,
)
