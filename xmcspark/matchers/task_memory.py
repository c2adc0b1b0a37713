"""How much memory a training task may take, and which units would take more. Units above the limit are refused before
anything runs: an executor that is killed for its memory says nothing about the reason."""

from __future__ import annotations

from collections.abc import Mapping

from xmcspark.errors import InputError
from xmcspark.matchers.schedule import Work
from xmcspark.tree.units import unit_bytes

INTERPRETER = 300 << 20  # of Python with its libraries, and the batches in hand; as measured


def work_bytes(
    work: Work, features: int, depth: int, max_rows: int, threads: int, soft_share: float = 0.0
) -> int:
    """Memory that training a unit takes, by estimate, with the strings its rows arrive in."""
    unit = work.unit
    share = min(1.0, max_rows / max(1, unit.rows)) if unit.nodes == 1 else 1.0  # the others are not sent
    rows = int(unit.rows * share)
    packed = int(unit.nnz * share) * 8 + rows * 32
    needed = unit_bytes(unit, features, depth, threads, soft_share)
    return INTERPRETER + packed + int(needed * share)


def check_memory(sizes: Mapping[Work, int], limit: int | None) -> None:
    """InputError naming the largest unit if it does not fit."""
    if limit is None or not sizes:
        return
    work, size = max(sizes.items(), key=lambda pair: pair[1])
    if size <= limit:
        return
    unit, above = work.unit, sum(other > limit for other in sizes.values())
    raise InputError(
        f"training unit {unit.unit} of member {work.member} ({unit.nodes} nodes, {unit.rows:,} rows, {unit.nnz:,} "
        f"feature values) would take about {_mb(size)} MB, and a task may take {_mb(limit)} MB"
        f"{f'; {above} units are too large' if above > 1 else ''}: lower train.max_rows (for the top nodes), raise "
        "tree.sub_trees (for the others), give executors more memory or fewer cores, or raise train.task_memory_mb if "
        "there is more"
    )


def derived_limit(conf: Mapping[str, str], local_slots: int | None, machine_bytes: int) -> int | None:
    """Bytes for one task, from what the session says; None if it does not say. `local_slots`: tasks at a time if all
    run on this machine."""
    if local_slots is not None:
        heap = _bytes(conf.get("spark.driver.memory", "1g"))
        return max(0, machine_bytes - heap) // local_slots
    at_a_time = max(1, int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))
    for key in ("spark.executor.pyspark.memory", "spark.executor.memoryOverhead"):
        if conf.get(key):
            return _bytes(conf[key]) // at_a_time
    return None


def _bytes(text: str) -> int:
    """Spark's sizes: 512m, 4g, 100k; a bare number is in MiB."""
    number = text.lower().removesuffix("b")
    unit = {"k": 10, "m": 20, "g": 30, "t": 40}
    if number[-1:] in unit:
        return int(float(number[:-1]) * 2 ** unit[number[-1]])
    return int(number) << (0 if text.lower().endswith("b") else 20)


def _mb(size: int) -> str:
    return f"{-(-size // (1 << 20)):,}"
