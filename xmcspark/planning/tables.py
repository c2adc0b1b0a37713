"""A plan, a comparison and costs as text for a person, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from xmcspark.planning.compare import Compared
from xmcspark.planning.costs import Costs
from xmcspark.planning.plan import ClusterPlan, Plan
from xmcspark.planning.statistics import MEANINGS
from xmcspark.planning.work import STAGES

_CLOSE = 0.3  # of a prediction, relative to what was measured
_SMALL = {"seconds": 2.0, "shuffle": 1e6}  # below, a ratio says nothing


def plan_text(plan: Plan, costs: Costs) -> str:
    parts = [_corpus(plan), _training(plan), _stages(plan), _shuffles(plan), _memory(plan)]
    parts += [_lines("note", plan.advice)] if plan.advice else []
    parts.append(_basis(costs))
    return "\n\n".join(parts)


def compare_text(found: Sequence[Compared], run: str) -> str:
    rows = [["", "", "predicted", "measured", "ratio"]]
    for one in found:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        rows.append([one.what, one.name, _shown(one, one.predicted), _shown(one, one.measured), ratio])
    counted = [one for one in found if one.what in _SMALL and one.measured >= _SMALL[one.what]]
    close = sum(abs((one.ratio or 0) - 1) <= _CLOSE for one in counted)
    return (
        f"run {run}, planned from its corpus alone\n\n{_aligned(rows, left=2)}\n\n"
        f"{close} of {len(counted)} seconds and shuffles are within 30% (from 2 s and 1 MB on)"
    )


def plan_values(plan: Plan, costs: Costs) -> dict[str, Any]:
    work = plan.training.work
    return {
        "statistics": {name: asdict(fact) for name, fact in plan.facts.items()},
        "tree": {"levels": list(work.tree.level_sizes), "members": _members(plan)},
        "units": [asdict(unit) for unit in work.units],
        "training_load": plan.training.load,
        "weights": plan.weights,
        "model_bytes": plan.model_bytes,
        "clusters": [_cluster_values(one) for one in plan.clusters],
        "notes": plan.advice,
        "costs": costs.measured,
    }


def compare_values(found: Sequence[Compared], run: str) -> dict[str, Any]:
    return {"run": run, "compared": [{**asdict(one), "ratio": one.ratio} for one in found]}


def _cluster_values(plan: ClusterPlan) -> dict[str, Any]:
    return {
        **asdict(plan.cluster),
        "schedule": asdict(plan.schedule),
        "seconds": dict(plan.seconds),
        "shuffle_bytes": dict(plan.shuffle),
        "memory_bytes": dict(plan.memory),
        "hours": plan.hours,
        "dollars": plan.dollars,
    }


def _members(plan: Plan) -> int:
    return 1 + max(work.member for step in plan.training.steps for work in step)


def _corpus(plan: Plan) -> str:
    rows = []
    for name, meaning in MEANINGS.items():
        fact = plan.facts[name]
        rows.append([meaning, _number(fact.value), fact.source])
    return _aligned(rows, left=1, last_left=True)


def _training(plan: Plan) -> str:
    work, training = plan.training.work, plan.training
    levels = " > ".join(f"{size:,}" for size in work.tree.level_sizes)
    heaviest = max(work.units, key=lambda unit: unit.load)
    share = heaviest.load * _members(plan) / max(1, training.load)
    whole = sum(unit.whole for unit in work.units)
    lines = [
        f"tree      {levels} labels" + (f", {_members(plan)} of them" if _members(plan) > 1 else ""),
        f"units     {len(work.units):,}: {whole:,} sub-trees and {len(work.units) - whole:,} single nodes above them, "
        f"the heaviest {share:.1%} of the work ({heaviest.rows:,} rows, {heaviest.matchers:,} matchers)",
        f"model     about {plan.weights:,.0f} weights, {_size(plan.model_bytes)}",
    ]
    rows = [["training on", "slots", "waves", "tasks", "worst/mean slot"]]
    for one in plan.clusters:
        s = one.schedule
        rows.append([one.cluster.name, f"{s.slots}", f"{s.waves}", f"{s.tasks:,}", f"{s.balance:.2f}"])
    return "\n".join(lines) + "\n\n" + _aligned(rows, left=1)


def _stages(plan: Plan) -> str:
    rows = [["seconds", *(one.cluster.name for one in plan.clusters)]]
    there = [stage for stage in STAGES if any(one.seconds[stage] for one in plan.clusters)]
    rows += [[stage, *(f"{one.seconds[stage]:,.1f}" for one in plan.clusters)] for stage in there]
    rows.append(["hours", *(f"{one.hours:,.3f}" for one in plan.clusters)])
    if any(one.dollars is not None for one in plan.clusters):
        rows.append(
            ["dollars", *("" if one.dollars is None else f"{one.dollars:,.2f}" for one in plan.clusters)]
        )
    return _aligned(rows, left=1)


def _shuffles(plan: Plan) -> str:
    what = {"vectorize": "counts", "index": "PIFA sums", "train": "routed rows"}
    rows = [["shuffled", *(one.cluster.name for one in plan.clusters)]]
    for stage in STAGES:
        if any(one.shuffle[stage] >= 1 for one in plan.clusters):
            name = f"{stage} ({what[stage]})" if stage in what else stage
            rows.append([name, *(_size(one.shuffle[stage]) for one in plan.clusters)])
    return _aligned(rows, left=1)


def _memory(plan: Plan) -> str:
    rows = [["memory of a task", *(one.cluster.name for one in plan.clusters)]]
    for stage, name in (("index", "index (tree)"), ("train", "train (largest unit)")):
        rows.append([name, *(_size(one.memory[stage]) for one in plan.clusters)])
    if any(one.cluster.task_bytes for one in plan.clusters):
        sizes = (one.cluster.task_bytes for one in plan.clusters)
        rows.append(["a task has", *("" if size is None else _size(size) for size in sizes)])
    return _aligned(rows, left=1)


def _basis(costs: Costs) -> str:
    measured = costs.measured
    runs = "; ".join(str(run) for run in measured.get("runs", [])) or "no run yet"
    return f"costs of {measured.get('date', '?')}, {measured.get('machine', '?')}; runs of {runs}"


def _lines(word: str, lines: Sequence[str]) -> str:
    return "\n".join(f"{word}: {line}" for line in lines)


def _shown(one: Compared, value: float) -> str:
    if one.what in ("shuffle", "memory"):
        return _size(value)
    return f"{value:,.1f}" if one.what == "seconds" else _number(value)


def _number(value: float) -> str:
    """Counts without a fraction, means with one digit of it."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.1f}"


def _size(value: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value / 1e3:,.1f} kB"


def _aligned(rows: Sequence[Sequence[str]], left: int, last_left: bool = False) -> str:
    """Columns of equal width, the first `left` of them (and the last, if asked) flush left."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at < left or (last_left and at == len(row) - 1) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
