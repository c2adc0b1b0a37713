"""The training work of a tree that does not exist yet: its shape, units, memory, and how the units are scheduled on so
many slots. All by the functions that index and train use; only the rows of each node are estimates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xmcspark.config.configuration import Config
from xmcspark.errors import ConfigError
from xmcspark.mach.task_memory import repetition_load
from xmcspark.matchers.schedule import Task, Work, plan_steps, plan_tasks, slot_balance
from xmcspark.matchers.steps import TreeWork, training_steps
from xmcspark.matchers.task_memory import work_bytes
from xmcspark.planning.label_spread import expected_counts, exponent_for
from xmcspark.planning.statistics import Statistics
from xmcspark.tree.build import cluster_counts
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.shape import Shape
from xmcspark.tree.units import plan_units

_ROW_BYTES, _ENTRY_BYTES = 28, 8  # of a row on its way to a unit (matchers/packed_rows.py)


@dataclass(frozen=True)
class Schedule:
    """Training on so many slots."""

    slots: int
    waves: int
    tasks: int
    busiest: int  # load of the busiest slot, over all steps
    balance: float  # that, over the mean of all slots
    routed_bytes: int  # of the rows on their way to the tasks, before they are compressed


@dataclass(frozen=True)
class Training:
    """Units and steps, which do not depend on the cluster."""

    work: TreeWork  # of each member: they have the same shape
    steps: list[list[Work]]
    waves: int | None
    max_rows: int
    features: int

    @cached_property
    def load(self) -> int:
        """Nanoseconds of one core, by the estimate that tasks are planned by."""
        return sum(work.load for step in self.steps for work in step)

    @cached_property
    def level_entries(self) -> int:
        """Entries that the nodes of all levels of one member train on."""
        return int(self.work.counts.capped(self.max_rows).nnz.sum())

    def largest_bytes(self, threads: int) -> int:
        """Memory of the task that needs most."""
        depth = self.work.tree.depth
        every = (work for step in self.steps for work in step)
        return max(work_bytes(work, self.features, depth, self.max_rows, threads) for work in every)

    def schedule(self, slots: int) -> Schedule:
        planned = [
            [plan_tasks(wave, slots) for wave in waves] for waves in plan_steps(self.steps, self.waves)
        ]
        tasks = [task for waves in planned for wave in waves for task in wave]
        loads = [sum(task.load for wave in waves for task in wave) for waves in planned]
        each = [slot_balance(waves, slots) * load / slots for waves, load in zip(planned, loads, strict=True)]
        busiest, mean = sum(each), sum(loads) / slots
        waves = sum(len(waves) for waves in planned)
        return Schedule(slots, waves, len(tasks), round(busiest), busiest / max(1.0, mean), _routed(tasks))


def planned_training(config: Config, found: Statistics, together: float) -> Training:
    """The training of a run with these settings and statistics."""
    if config.encoder.enabled:
        texts = round(config.encoder.epochs * found.instances * _texts_of_a_query(config))
        raise ConfigError(
            [
                f"method is {config.method}, and plan does not know encoders: encode passes {texts:,} texts forward "
                f"and back and embeds {found.instances:,}; time a few hundred with a small input.train and scale; plan "
                "the rest of the run with method xr-linear"
            ]
        )
    if config.mach.enabled:
        load = repetition_load(
            config.mach.buckets,
            found.instances,
            found.instances * round(found.row_features),
            found.pairs,
            config.train.max_rows,
        )
        raise ConfigError(
            [
                "mach.enabled is true, and plan knows trees only: MACH trains "
                f"{config.mach.repetitions} repetitions side by side, each about {load / 1e9:,.0f} CPU seconds with a "
                "linear learner; plan the rest of the run with method xr-linear"
            ]
        )
    tree = expected_tree(found.labels, config)
    exponent = exponent_for(found.top_share, found.labels)
    counts = expected_counts(tree, found.instances, found.pairs, found.row_features, exponent, together)
    units = plan_units(tree, counts, config.tree.sub_trees, config.train.max_rows)
    work = TreeWork(tree, units, counts)
    steps = training_steps([work] * config.ensemble.members, config.train)
    return Training(work, steps, config.train.waves, config.train.max_rows, found.features)


def _texts_of_a_query(config: Config) -> int:
    """Itself, and with a dual encoder the label texts that it brings into a pool, at most."""
    pooled = config.unidec.enabled and "dual" in config.unidec.heads
    return 1 + (config.unidec.positives + config.unidec.hard_negatives if pooled else 0)


def expected_tree(labels: int, config: Config) -> LabelTree:
    """A tree of the shape that index builds, with labels that nobody looks at. Not balanced: as if it were."""
    sizes = cluster_counts(labels, config.tree)
    leaves = (1, *sizes)[-1]
    bottom = np.arange(leaves + 1, dtype=np.int64) * labels // leaves
    nobody = np.broadcast_to(np.zeros(1, np.int32), labels)
    return LabelTree.opened((*Shape.whole(sizes).child_ptr, bottom), nobody)


def _routed(tasks: list[Task]) -> int:
    units = [work.unit for task in tasks for work in task.works]  # a piece of a unit gets all of its rows
    return sum(_ROW_BYTES * unit.rows + _ENTRY_BYTES * unit.nnz for unit in units)
