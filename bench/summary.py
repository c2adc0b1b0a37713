"""From the answers of many runs to one result: medians of times and memory, sums over steps for the systems
that have them all, means of quality (each repeat has its own seed)."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

from bench.systems import STEPS, SUMS

_NUMBERS = ("wall_s", "cpu_s", "peak_mb", "start_mb", "p50_ms", "p99_ms")


def summarise(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """`steps`, `sums`, `quality`, `trees` and `facts` of all the answers."""
    takes: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        for record in answer["steps"]:
            takes[record["step"], record["system"]].append(record)
    steps = [
        {
            "step": step,
            "system": system,
            **{key: statistics.median(r[key] for r in records) for key in _NUMBERS if key in records[0]},
            "cpu_s_runs": [r["cpu_s"] for r in records],
        }
        for (step, system), records in sorted(takes.items(), key=lambda item: STEPS.index(item[0][0]))
    ]
    facts = _facts(answers)
    return {
        "steps": steps,
        "sums": _sums(steps, facts),
        "quality": _means(answers, "quality"),
        "trees": _means(answers, "tree"),
        "facts": facts,
    }


def _facts(answers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each system those of its last run, with medians where they are times."""
    by_system: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        by_system[answer["system"]].append(answer["facts"])
    return {system: {**found[-1], **_median_times(found)} for system, found in by_system.items()}


def _median_times(found: list[dict[str, Any]]) -> dict[str, Any]:
    last, medians = found[-1], {}
    if "start_s" in last:
        medians["start_s"] = statistics.median(facts["start_s"] for facts in found)
    if "stages" in last:
        medians["stages"] = {
            stage: statistics.median(facts["stages"][stage] for facts in found) for stage in last["stages"]
        }
    if "sums" in last:
        runs = [{total["step"]: total for total in facts["sums"]} for facts in found]
        medians["sums"] = [
            {
                "step": step,
                **{
                    key: statistics.median(run[step][key] for run in runs) for key in _NUMBERS if key in total
                },
            }
            for step, total in runs[-1].items()
        ]
    return medians


def _sums(steps: list[dict[str, Any]], facts: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Totals over several steps, for the systems that have them all (or do them inside another)."""
    by_system: dict[str, dict[str, dict[str, Any]]] = {system: {} for system in facts}
    for record in steps:
        by_system[record["system"]][record["step"]] = record
    nothing = {"wall_s": 0.0, "cpu_s": 0.0, "peak_mb": 0.0}
    sums = []
    for name, alternatives in SUMS.items():
        for system, records in by_system.items():
            inside = dict.fromkeys(facts[system].get("train_includes", []), nothing)
            have = {**inside, **records}
            parts = next((parts for parts in alternatives if all(part in have for part in parts)), None)
            if parts is not None:
                total = {key: sum(have[part][key] for part in parts) for key in ("wall_s", "cpu_s")}
                peak = max(have[part]["peak_mb"] for part in parts)
                sums.append({"step": name, "system": system, **total, "peak_mb": peak})
    return sums + [{**total, "system": system} for system in facts for total in facts[system].get("sums", [])]


def _means(answers: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    by_system: dict[str, list[dict[str, float]]] = defaultdict(list)
    for answer in answers:
        if key in answer:
            by_system[answer["system"]].append(answer[key])
    return {
        system: {name: statistics.fmean(r[name] for r in records) for name in records[0]}
        for system, records in by_system.items()
    }
