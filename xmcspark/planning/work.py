"""How much of each kind of work each stage has: what its seconds and its shuffles grow with, on so many slots. Few
kinds to a stage, so that few runs are enough to measure what they cost. Work that all slots share is divided by them;
what one task or the driver does is not, and neither is what is fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xmcspark.config.configuration import Config
from xmcspark.planning.costs import ByStage, Guesses
from xmcspark.planning.label_spread import capped_pairs, exponent_for
from xmcspark.planning.statistics import Statistics
from xmcspark.planning.training import Schedule, Training
from xmcspark.tree.build import cluster_counts, cut_for_sample

# As in tree/build_spark.py, tree/index_spark.py, labels/pifa_spark.py and store/direct_tables.py, which know Spark; a
# test holds them equal.
WHOLE_ENTRIES, FEWEST_SUB_TREES, TREE_ENTRY_BYTES = 100_000_000, 8, 24
GROUP_ROWS, TASKS_PER_SLOT, GROUP_BYTES = 1 << 16, 2, 16 << 20
_M = 1e6
_GRAM_REPEATS = 0.2  # power of the tasks with which they send more grams in all: each sends those it met
STAGES = (
    "start",
    "ingest",
    "corpus",
    "augment",
    "vectorize",
    "index",
    "train",
    "predict",
    "evaluate",
    "publish",
)


@dataclass(frozen=True)
class TreeBuilding:
    """Clustering of the labels: passes of entries, in the longest chain of tasks, and the largest task's memory."""

    passes: float
    task_bytes: int


def tree_building(config: Config, found: Statistics, slots: int) -> TreeBuilding:
    """One task builds a tree; of a large one only the upper levels, and the sub-trees are built side by side; where
    labels are sampled, the upper levels from the sample."""
    members, entries = config.ensemble.members, float(found.label_entries)
    sizes = cluster_counts(found.labels, config.tree)
    sample = cut_for_sample(found.labels, config.tree)
    side_by_side = math.ceil(members / slots)
    halvings = math.log2(max(2, sizes[-1] if sizes else 2))
    wide = [size for size in sizes[:-1] if size >= FEWEST_SUB_TREES]
    if sample is not None:
        share, parts = sample.share, sample.sub_trees
    elif entries > WHOLE_ENTRIES and wide and config.tree.balanced:
        share, parts = 1.0, wide[0]
    else:
        return TreeBuilding(side_by_side * entries * halvings, int(entries) * TREE_ENTRY_BYTES)
    upper = math.log2(parts)
    walked = entries * upper / slots if sample is not None else 0.0
    below = members * entries * max(0.0, halvings - upper) / min(slots, members * parts)
    largest = max(share, 1.1 / parts) if sample is not None else 1.0
    return TreeBuilding(
        side_by_side * entries * share * upper + walked + below, int(entries * largest) * TREE_ENTRY_BYTES
    )


def work_seconds(
    config: Config, found: Statistics, training: Training, schedule: Schedule, guesses: Guesses
) -> ByStage:
    """Millions of each kind of work; of load, thousands of millions."""
    slots = schedule.slots
    readers, routers = min(slots, text_tasks(found, slots)), min(slots, row_tasks(found, slots))
    characters = (found.instances + found.test_instances) * found.characters / _M / readers
    pairs = found.pairs / _M / readers
    weights = expected_weights(config, found, training, guesses) / _M
    logs = {"fixed": 1.0, "log_records": found.log_records / _M / slots} if found.log_records else {}
    return {
        "start": {"fixed": 1.0},
        "ingest": logs,
        "corpus": {"fixed": 1.0, "characters": characters, "pairs": pairs},
        "augment": _augmenting(config, found, slots),
        "vectorize": {"fixed": 1.0, "characters": characters, "features": found.features / _M},
        "index": {
            "fixed": 1.0,
            "pair_entries": _pair_entries(config, found) / _M / routers,
            "tree_passes": tree_building(config, found, slots).passes / _M,
        },
        "train": {
            "fixed": 1.0,
            "load": schedule.busiest / 1e9,
            "routed_bytes": schedule.routed_bytes / _M / routers,
            "tasks": schedule.tasks / slots,
            "weights": weights,
        },
        "predict": {"fixed": 1.0, "entries": found.test_instances * found.row_features / _M / slots},
        "evaluate": {"fixed": 1.0, "pairs": pairs, "rows": found.test_instances / _M / slots},
        "publish": {"fixed": 1.0, "weights": weights},
    }


def work_shuffle(config: Config, found: Statistics, schedule: Schedule, guesses: Guesses) -> ByStage:
    """Millions of what each stage shuffles."""
    tasks = text_tasks(found, schedule.slots)
    entries = _pair_entries(config, found)
    # Rows that a task multiplies at once: labels that several of them have are added before they travel.
    rows = min(GROUP_ROWS, found.instances / row_tasks(found, schedule.slots))
    repeats = max(1.0, rows * found.labels_per_row / found.labels)
    return {
        "ingest": {"log_records": found.log_records / _M},
        "corpus": {"pairs": found.pairs / _M},
        "vectorize": {"features": found.features * tasks**_GRAM_REPEATS / _M},
        "index": {"pair_entries": entries * repeats ** (guesses.label_growth - 1) / _M},
        "train": {"routed_bytes": schedule.routed_bytes / _M},
        "evaluate": {"labels": found.labels / _M},
    }


def text_tasks(found: Statistics, slots: int) -> int:
    """That read the texts: there is no more than one to a row group."""
    return max(1, min(TASKS_PER_SLOT * slots, found.row_groups))


def row_tasks(found: Statistics, slots: int) -> int:
    """That read the rows of X, whose files were written by those."""
    groups = math.ceil(found.entries * 8 / GROUP_BYTES)
    return max(1, min(TASKS_PER_SLOT * slots, max(groups, found.row_groups)))


def expected_weights(config: Config, found: Statistics, training: Training, guesses: Guesses) -> float:
    """Of the models of all members."""
    each = guesses.weights * training.level_entries * weight_share(found, guesses.label_growth)
    if config.train.max_weights:
        each = min(each, config.train.max_weights * sum(unit.matchers for unit in training.work.units))
    return each * config.ensemble.members


def weight_share(found: Statistics, label_growth: float) -> float:
    """Weights become fewer, beside the entries that are trained on, as the features of labels do."""
    return float(max(1.0, found.pairs / found.labels) ** (label_growth - 1))


def _augmenting(config: Config, found: Statistics, slots: int) -> dict[str, float]:
    """Pairs of labels that instances have together; the trial trains twice on a sample, in one task."""
    if config.augment.gandalf is False:
        return {}
    together = found.pairs * min(found.labels_per_row, config.augment.max_labels)
    tried = min(config.augment.trial_rows, found.instances) if config.augment.validation_share else 0
    return {"fixed": 1.0, "pairs": together / _M / slots, "tried_entries": tried * found.row_features / _M}


def _pair_entries(config: Config, found: Statistics) -> float:
    """Features of instances added up for their labels."""
    exponent = exponent_for(found.top_share, found.labels)
    pairs = capped_pairs(found.pairs, found.labels, exponent, config.pifa.max_instances)
    return pairs * found.row_features
