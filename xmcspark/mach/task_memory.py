"""What a repetition costs, by estimate, before it is scheduled: memory of its task, load in the unit of all loads."""

from __future__ import annotations

import numpy as np

from xmcspark.errors import InputError
from xmcspark.mach.repetition import Part
from xmcspark.mach.settings import MachSettings
from xmcspark.matchers.task_memory import INTERPRETER
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import NodeCounts, Unit, plan_units, unit_bytes

_TORCH = 400 << 20  # with its libraries, as measured
_ROW_COPIES = 2  # as they came, and in order
_HASHING = 100 << 20  # of one block of rows (feature_hashing.py)
_OF_A_BATCH = (
    6  # float32 [batch, B] of a step: logits before and after the bias, targets, costs, shares, gradient
)


def repetition_load(buckets: int, rows: int, nnz: int, targets: int, max_rows: int) -> int:
    """Expected nanoseconds of one core."""
    return _unit(buckets, rows, nnz, targets, max_rows).load


def repetition_bytes(
    part: Part, settings: MachSettings, rows: int, nnz: int, targets: int, threads: int
) -> int:
    """Memory of the task that trains a repetition on so many rows."""
    held = _ROW_COPIES * (8 * nnz + 32 * rows + 8 * targets)
    if part.hashed_features:
        held += 8 * nnz + 8 * rows + _HASHING
    if settings.learner == "mlp":
        weights = (part.columns + part.buckets) * settings.hidden
        held += 4 * _OF_A_BATCH * min(settings.batch_size, rows) * part.buckets
        return INTERPRETER + _TORCH + held + 16 * weights  # the weights, their gradient, two moments of Adam
    unit = _unit(part.buckets, rows, nnz, targets, 0)
    return INTERPRETER + held + unit_bytes(unit, part.columns, 1, threads, 0.0)


def check_repetition_memory(needed: int, limit: int | None) -> None:
    if limit is not None and needed > limit:
        raise InputError(
            f"a repetition of MACH would take about {needed >> 20:,} MB, and a task may take {limit >> 20:,} MB: give "
            "executors more memory or fewer cores, lower mach.buckets or set mach.hashed_features (fewer weights), or "
            "raise train.task_memory_mb if there is more"
        )


def _unit(buckets: int, rows: int, nnz: int, targets: int, max_rows: int) -> Unit:
    counts = NodeCounts(*(np.array([count], np.int64) for count in (rows, nnz, targets)))
    (unit,) = plan_units(LabelTree.root_only(buckets), counts, 1, max_rows)
    return unit
