"""The train stage: plans units, waves and tasks, trains what no finished wave has, and puts the model together. A wave
is finished when its record is there; its rows lie in a folder of their own, so that waves can be written at the same
time and an unfinished one leaves nothing behind."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields, replace

from xmcspark.errors import ConfigError
from xmcspark.matchers.caps_spark import row_caps
from xmcspark.matchers.pack_spark import write_model
from xmcspark.matchers.schedule import Work, plan_tasks, plan_waves, slot_balance
from xmcspark.matchers.settings import LAYOUT_KEYS, TrainSettings
from xmcspark.matchers.task_memory import check_memory, derived_limit, work_bytes
from xmcspark.matchers.wave_runs_spark import FinishedWave, run_waves
from xmcspark.matchers.wave_spark import ARROW_RECORDS, Forest, Wave
from xmcspark.store.direct_tables import rows_of_table
from xmcspark.store.session import arrow_batch, slots_of, task_threads
from xmcspark.store.side_files import local_copy, send_folder
from xmcspark.store.small_frames import small_frame
from xmcspark.store.stage import Context, Stage
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import NodeCounts, Unit, load_units

log = logging.getLogger(__name__)

SUPPORTED_NEGATIVES = ("tfn",)


def train(context: Context) -> None:
    settings = context.config.train
    if settings.negatives not in SUPPORTED_NEGATIVES:
        raise ConfigError(
            [
                f"train.negatives is {settings.negatives!r}: the Spark job supports "
                f"{' and '.join(SUPPORTED_NEGATIVES)}; the others are in the library (xmcspark.train_matchers)"
            ]
        )
    trees = _trees(context)
    works = [Work(member, unit) for member, tree in enumerate(trees) for unit in tree.units]
    forest = _forest(context, trees)
    sizes = _checked_sizes(context, works, trees, forest)
    slots = slots_of(context.spark)
    waves = [
        Wave(number, tuple(plan_tasks(wave, slots)))
        for number, wave in enumerate(plan_waves(works, settings.waves))
    ]
    rows = rows_of_table(context, "features", "train")
    with arrow_batch(context.spark, ARROW_RECORDS):
        crowded = [tree.crowded(settings.max_rows) for tree in trees]
        forest = replace(forest, caps=row_caps(rows, forest, crowded, settings.max_rows))
        finished = run_waves(context, rows, forest, waves)
        _write_loads(context, waves, finished, sizes)
        write_model(context, forest, [tree.units for tree in trees], _weights(finished))
    _note(context, waves, finished, forest, slot_balance([wave.tasks for wave in waves], slots))


@dataclass(frozen=True)
class _Tree:
    tree: LabelTree
    units: list[Unit]
    counts: NodeCounts

    def crowded(self, max_rows: int) -> list[int]:
        return [int(node) for node in (self.counts.rows > max_rows).nonzero()[0]]


def _trees(context: Context) -> list[_Tree]:
    """The trees of all members as the driver sees them, mapped into memory."""
    folder = local_copy(context.fs, context.folder("tree"))
    opened = []
    for member in range(context.config.ensemble.members):
        tree = LabelTree.load(folder / str(member))
        opened.append(_Tree(tree, *load_units(folder / str(member) / "units")))
    return opened


def _forest(context: Context, trees: list[_Tree]) -> Forest:
    spark, version = context.spark, context.run.key_of_input("tree/")
    alone = context.config.train.alone
    return Forest(
        folder=send_folder(spark, context.fs, context.folder("tree"), version),
        version=f"{context.run.uri} {version}",
        settings=tuple(replace(alone, seed=alone.seed + member) for member in range(len(trees))),
        caps=tuple({} for _ in trees),
        features=int(context.noted("vectorize")["features"]),
        run=context.run.id,
        threads=task_threads(spark),
    )


def _checked_sizes(
    context: Context, works: list[Work], trees: list[_Tree], forest: Forest
) -> dict[Work, int]:
    """Expected memory of each unit; InputError if one does not fit into a task."""
    settings = context.config.train
    sizes = {
        work: work_bytes(
            work, forest.features, trees[work.member].tree.depth, settings.max_rows, forest.threads
        )
        for work in works
    }
    limit = None if settings.task_memory_mb is None else settings.task_memory_mb << 20
    check_memory(sizes, _derived_limit(context) if limit is None else limit)
    return sizes


def _derived_limit(context: Context) -> int | None:
    spark = context.spark.sparkContext
    local = (spark.master or "").startswith("local")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return derived_limit(dict(spark.getConf().getAll()), slots_of(context.spark) if local else None, machine)


def _write_loads(
    context: Context, waves: list[Wave], finished: list[FinishedWave], sizes: dict[Work, int]
) -> None:
    rows = []
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
    schema = (
        "member int, sub_tree int, node int, nodes int, matchers bigint, wave int, task int, rows bigint, nnz bigint, "
        "predicted_bytes bigint, peak_bytes bigint, predicted_load double, seconds double"
    )
    context.write("sub_tree_load", small_frame(context.spark, sorted(rows), schema), files=1)


def _weights(finished: list[FinishedWave]) -> dict[tuple[int, int], int]:
    """Weights of each unit of each member."""
    weights: dict[tuple[int, int], int] = {}
    for wave in finished:
        for member, unit in wave.units:
            weights[member, unit] = int(wave.cost_of(member, unit)["weights"])
    return weights


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
        units=sum(len(wave.units) for wave in finished),
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
    return ("seed", "ensemble.members", *(f"train.{name}" for name in names))


STAGE = Stage(
    "train",
    1,
    _keys(),
    reads=("features", "tree/"),
    writes=("matchers", "sub_tree_load", "bundle/model/"),
    run=train,
)
