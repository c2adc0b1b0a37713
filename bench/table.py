"""The tables people read: one row a step, one column a system, each number with its ratio to xmcspark's."""

from __future__ import annotations

import math
from typing import Any

from bench.systems import STEPS, SUMS, SYSTEMS

OURS, LIBRARY, TABLES, SPARK = "xmcspark", "xmcspark-library", "xmcspark-tables", "xmcspark-spark"
_ONE_BY_ONE = ("tfidf_one_ms", "predict_one_ms")


def text_table(rows: list[list[str]]) -> str:
    """Rows (the first is the header) as a Markdown table with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "| " + " | ".join("-" * w for w in widths) + " |", *lines[1:]])


def steps_table(result: dict[str, Any], key: str) -> str:
    """All steps and sums by `key`: cpu_s, wall_s or peak_mb. Single-query steps are in milliseconds."""
    records = {(r["step"], r["system"]): r for r in _all(result)}
    systems = _systems(result)
    unit = {"cpu_s": "CPU s", "wall_s": "wall s", "peak_mb": "peak MB"}[key]
    rows = [[unit, *systems]]
    measured = [step for step in (*STEPS, *SUMS) if any((step, system) in records for system in systems)]
    rows += [[_title(step), *(_cell(records, step, system, key) for system in systems)] for step in measured]
    return text_table(rows)


def quality_table(result: dict[str, Any]) -> str:
    """Precision, tightness of the trees and size of the models."""
    systems = [s for s in _systems(result) if s in result["quality"] or s in result["trees"]]
    if not systems:
        return ""
    rows = [["", "P@1", "P@3", "P@5", "label-leaf cosine", "leaves", "largest leaf", "model MB"]]
    for system in systems:
        scores, tree = result["quality"].get(system, {}), result["trees"].get(system, {})
        size = result["facts"].get(system, {}).get("model_mb")
        rows.append(
            [
                system,
                *(f"{100 * scores[f'P@{k}']:.2f}" if scores else "" for k in (1, 3, 5)),
                f"{tree['leaf_cosine']:.4f}" if tree else "",
                *(f"{tree[name]:.0f}" if tree else "" for name in ("leaves", "largest_leaf")),
                "" if size is None else f"{size:.1f}",
            ]
        )
    return text_table(rows)


def spark_table(result: dict[str, Any]) -> str:
    """Seconds and memory of the stages of the Spark job; "" if it did not run."""
    facts = result["facts"].get("xmcspark-spark")
    if facts is None:
        return ""
    peaks = facts["worker_peak_mb"]
    rows = [["the job on Spark", "wall s", "largest Python worker, MB"]]
    rows.append(["start and end", f"{facts['start_s']:.1f}", ""])
    rows += [
        [stage, f"{seconds:.1f}", f"{peaks[stage]:.0f}" if peaks.get(stage) else ""]
        for stage, seconds in facts["stages"].items()
    ]
    return text_table(rows)


def bundle_table(result: dict[str, Any]) -> str:
    """Milliseconds of a served bundle in a fresh process; "" if none was asked."""
    bundle = result["facts"].get("xmcspark-spark", {}).get("bundle")
    if not bundle:
        return ""
    titles = [name.removesuffix("_ms").replace("_", " ") for name in bundle]
    return text_table([["the bundle, ms", *titles], ["", *(f"{value:.3f}" for value in bundle.values())]])


def marginal_table(results: list[dict[str, Any]]) -> str:
    """What the second of two sizes takes more than the first, from text to model: the library, the library leaving the
    job's tables, and the job; "" without two such sizes."""
    timed = (r for r in results if SPARK in r["facts"] and not {LIBRARY, TABLES}.isdisjoint(r["facts"]))
    sized = sorted(timed, key=lambda r: r["data"]["instances"])
    if len(sized) < 2:
        return ""
    walls = [_text_to_model(result) for result in (sized[0], sized[-1])]
    systems = [system for system in (OURS, LIBRARY, TABLES, SPARK) if all(system in wall for wall in walls)]
    more = {system: walls[1][system] - walls[0][system] for system in systems}
    sizes = [f"{r['data']['instances']:,} × {r['data']['labels']:,}" for r in (sized[0], sized[-1])]
    rows = [["text to model, wall s", *sizes, "more", *(f"of {system}" for system in systems[:-1])]]
    for system in systems:
        shares = [f"{more[system] / more[other]:.2f}×" for other in systems[:-1]]
        rows.append([system, *(f"{wall[system]:.1f}" for wall in walls), f"{more[system]:.1f}", *shares])
    return text_table(rows)


def _text_to_model(result: dict[str, Any]) -> dict[str, float]:
    return {r["system"]: r["wall_s"] for r in result["sums"] if r["step"] == "text_to_model"}


def tree_levels_table(result: dict[str, Any]) -> str:
    """What each level of our trees took, root's children first; "" if no tree was built."""
    timed = [system for system in _systems(result) if "tree" in SYSTEMS[system].steps]
    levels = {system: result["facts"].get(system, {}).get("tree_levels", []) for system in timed}
    rows = [["tree by level", "level", "clusters", "centres", "CPU s", "passes", "values in a centre"]]
    rows += [
        [
            system,
            f"{level['level']}",
            f"{level['clusters']}",
            level["centres"],
            f"{level['cpu_seconds']:.3g}",
            f"{level['passes']:.1f}",
            f"{level['centre_length']:.0f}",
        ]
        for system, found in levels.items()
        for level in found
    ]
    return text_table(rows) if len(rows) > 1 else ""


def growth_table(results: list[dict[str, Any]]) -> str:
    """Our CPU seconds by size of generated data, and the cost of a doubling; "" for fewer than two sizes."""
    generated = [r for r in results if r["data"]["name"].startswith("generated")]
    threads = min((r["settings"]["threads"] for r in generated), default=1)
    # A doubling is one of instances and labels alike: sizes of the same mixture, of which there are most.
    mixtures: dict[float, dict[int, dict[str, Any]]] = {}
    for r in generated:
        if r["settings"]["threads"] == threads:
            mixture = mixtures.setdefault(r["data"]["labels"] / r["data"]["instances"], {})
            mixture[r["data"]["instances"]] = r
    by_size = max(mixtures.values(), key=len, default={})
    sizes = sorted(by_size)
    if len(sizes) < 2:
        return ""
    costs = {
        size: {r["step"]: r["cpu_s"] for r in _all(by_size[size]) if r["system"] == OURS} for size in sizes
    }
    titles = [f"{size:,} × {by_size[size]['data']['labels']:,}" for size in sizes]
    rows = [["CPU s", *titles]]
    for step in (*(s for s in STEPS if s not in _ONE_BY_ONE), *SUMS):
        cells = [_growth_cell(costs, sizes, i, step) for i in range(len(sizes))]
        if any(cells):
            rows.append([_title(step), *cells])
    return text_table(rows)


def _growth_cell(costs: dict[int, dict[str, float]], sizes: list[int], i: int, step: str) -> str:
    now = costs[sizes[i]].get(step)
    before = costs[sizes[i - 1]].get(step) if i else None
    if now is None:
        return ""
    if not before:
        return f"{now:.3g}"
    doublings = math.log2(sizes[i] / sizes[i - 1])
    return f"{now:.3g} ({(now / before) ** (1 / doublings):.2f}×)"


def _all(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [*result["steps"], *result["sums"]]


def _systems(result: dict[str, Any]) -> list[str]:
    seen = {record["system"] for record in result["steps"]}
    return [name for name in SYSTEMS if name in seen]


def _title(step: str) -> str:
    return f"**{step}**" if step in SUMS else step


def _cell(records: dict[tuple[str, str], dict[str, Any]], step: str, system: str, key: str) -> str:
    record = records.get((step, system))
    if record is None:
        return ""
    if key == "wall_s" and step in _ONE_BY_ONE:
        text = f"{record['p50_ms']:.3f} ms (p99 {record['p99_ms']:.3f})"
    elif key == "cpu_s" and step in _ONE_BY_ONE:
        text = f"{1e3 * record[key]:.3f} ms"
    else:
        text = f"{record[key]:.0f}" if key == "peak_mb" else f"{record[key]:.3g}"
    ours = records.get((step, SYSTEMS[system].beside))
    if ours is None or system.startswith(OURS) or not ours[key]:
        return text
    return f"{text} ({record[key] / ours[key]:.1f}×)"
