"""The tables of bench.mach as Markdown and the trade-off as SVG, from its results.

    .venv/bin/python -m bench.mach_report RESULTS ... --into bench/MACH.md --plot bench/mach-tradeoff.svg

What stands above the line MARK in the file stays: conclusions are written by people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.mach_steps import TOP_K, Asked
from bench.table import text_table
from bench.tradeoff_plot import Line, Panel, Spot, drawn

MARK = "<!-- From here on written by bench.mach_report. -->"
_QUALITY = ("P@1", "P@3", "P@5", "PSP@5", f"R@{TOP_K}")
_COSTS = ("train CPU s", "test CPU s", "MB", "dense MB", "peak MB train", "peak MB test")
_PRESETS = {"xr-linear": "XR-Linear", "parabel": "Parabel", "dismec": "DiSMEC"}

Row = dict[str, Any]


def asked_of(row: Row) -> Asked:
    return Asked(**row["asked"])


def title(asked: Asked) -> str:
    """What people call it."""
    name = _PRESETS.get(asked.preset, f"MACH B {asked.buckets:,} R {asked.repetitions}")
    name += " mlp" if asked.learner == "mlp" else ""
    name += f" beam {asked.beam}" if asked.preset and asked.beam != Asked().beam else ""
    name += " + XR-Linear" if asked.fused else ""
    return name + (" Gandalf" if asked.gandalf else "")


def in_grid(asked: Asked) -> bool:
    """Whether it is a plain sketch, of which there are B × R."""
    plain = Asked(buckets=asked.buckets, repetitions=asked.repetitions)
    return asked == plain


def dense_bytes(asked: Asked, data: dict[str, Any]) -> int | None:
    """Of the classifiers, if no weight was zero: of linear sketches and of one-vs-all."""
    size = 4 * (int(data["features"]) + 1)
    if asked.preset == "dismec":
        return size * int(data["labels"])
    is_linear_sketch = not asked.preset and not asked.fused and asked.learner == "linear"
    return size * asked.buckets * asked.repetitions if is_linear_sketch else None


def main_table(result: dict[str, Any]) -> str:
    """The grid, and beside it trees and one-vs-all."""
    rows = [row for row in result["rows"] if not asked_of(row).gandalf and not asked_of(row).fused]
    others = [row for row in rows if asked_of(row).preset]
    grid = sorted((row for row in rows if in_grid(asked_of(row))), key=_size)
    mlp = [row for row in rows if asked_of(row).learner == "mlp"]
    return _table([*others, *grid, *mlp], result["data"])


def variants_table(result: dict[str, Any]) -> str:
    """Gandalf and the ensemble, each beside what it changes; "" if there are none."""
    buckets, repetitions = result["chosen"]
    sketch: dict[str, Any] = {"buckets": buckets, "repetitions": repetitions}
    wanted = [
        Asked(gandalf=gandalf, **what)
        for what in ({"preset": "xr-linear"}, sketch, {**sketch, "fused": True})
        for gandalf in (False, True)
    ]
    rows = [row for asked in wanted for row in result["rows"] if _but_transform(asked_of(row)) == asked]
    varied = any(asked_of(row).gandalf or asked_of(row).fused for row in rows)
    return _table(rows, result["data"]) if varied else ""


def _but_transform(asked: Asked) -> Asked:
    """What is fused may need another transform than the sketch alone."""
    return replace(asked, transform="") if asked.fused else asked


def recovery_table(result: dict[str, Any]) -> str:
    """Aggregates, and fast recovery against exact, for one sketch; "" if that was not measured."""
    buckets, repetitions = result["chosen"]
    shown = [["", "recovery", *_QUALITY, "test CPU s", "of exact's top 10", "same top 10"]]
    for row in result["rows"]:
        asked = asked_of(row)
        plain = Asked(
            buckets=buckets, repetitions=repetitions, aggregate=asked.aggregate, recovery=asked.recovery
        )
        if asked != plain:
            continue
        same = [
            f"{100 * row[key]:.2f}%" if key in row else "" for key in ("top-10 agreement", "top-10 identical")
        ]
        shown.append(
            [asked.aggregate, asked.recovery, *_quality(row), f"{row['predicting']['cpu_s']:.1f}", *same]
        )
    return text_table(shown) if len(shown) > 2 else ""


def choices_table(choices: dict[str, Any]) -> str:
    """What was chosen by, on rows held out."""
    shown = [["held out", "P@1", "P@3", "P@5"]]
    tried = [
        ("XR-Linear", choices["xr-linear"]),
        *(
            (f"MACH, {name}" + " *" * (name == choices["transform"]), p)
            for name, p in choices["transforms"].items()
        ),
        *(
            (f"both, {name} ({p['transform']})" + " *" * (name == choices["fusion"]), p)
            for name, p in choices["fusions"].items()
        ),
    ]
    shown += [[name, *(f"{100 * found[f'P@{k}']:.2f}" for k in (1, 3, 5))] for name, found in tried]
    return text_table(shown)


def section(result: dict[str, Any]) -> str:
    """All about one dataset."""
    data, choices = result["data"], result["choices"]
    buckets, repetitions = result["chosen"]
    parts = [
        f"## {result['name']}",
        f"{data['rows']:,} training rows, {data['test rows']:,} test rows, {data['labels']:,} labels, "
        f"{data['features']:,} features.",
        main_table(result),
    ]
    if any(asked_of(row).label_share < 1 for row in result["rows"]):
        parts.append("≈: from the cost of a random share of the labels; its quality was not measured.")
    if variants := variants_table(result):
        parts += [f"Ensemble ({choices['fusion']}) and label texts as training rows (Gandalf):", variants]
    if recovery := recovery_table(result):
        parts += [f"Aggregates and recovery, B {buckets:,} R {repetitions}:", recovery]
    parts += [
        f"Chosen (*) on rows held out of the training split, B {choices['buckets']:,} R {choices['repetitions']}, "
        f"trained on {choices['rows']:,} rows:",
        choices_table(choices),
    ]
    return "\n\n".join(parts)


def _table(rows: Sequence[Row], data: dict[str, Any]) -> str:
    shown = [["", *_QUALITY, *_COSTS]]
    shown += [[title(asked_of(row)), *_quality(row), *_costs(row, data)] for row in rows]
    return text_table(shown)


def _quality(row: Row) -> list[str]:
    found = row.get("metrics")
    return [f"{100 * found[name][0]:.2f}" if found else "" for name in _QUALITY]


def _costs(row: Row, data: dict[str, Any]) -> list[str]:
    asked, training, predicting = asked_of(row), row["training"], row.get("predicting") or {}
    about, dense = "≈ " * (asked.label_share < 1), dense_bytes(asked, data)

    def cell(found: dict[str, Any], key: str, form: str) -> str:
        return format(found[key], form) if key in found else ""

    return [
        about + cell(training, "cpu_s", ",.1f"),
        cell(predicting, "cpu_s", ",.1f"),
        f"{about}{training['bytes'] / 1e6:,.1f}",
        "" if dense is None else f"{dense / 1e6:,.0f}",
        "" if about else cell(training, "peak_mb", ",.0f"),
        cell(predicting, "peak_mb", ",.0f"),
    ]


def _size(row: Row) -> tuple[int, int]:
    asked = asked_of(row)
    return asked.buckets, asked.repetitions


def panels(results: Sequence[dict[str, Any]], metric: str = "P@1") -> list[list[Panel]]:
    """Quality against bytes, and against seconds of training: a row each, a column a dataset."""
    costs: list[tuple[str, Callable[[Row], float]]] = [
        ("model, MB", lambda row: float(row["training"]["bytes"]) / 1e6),
        ("training, CPU seconds", lambda row: float(row["training"]["cpu_s"])),
    ]
    return [[_panel(result, metric, name, cost) for result in results] for name, cost in costs]


def _panel(result: dict[str, Any], metric: str, cost_name: str, cost: Callable[[Row], float]) -> Panel:
    """With one repetition labels of a bucket are all alike: such sketches are left out."""

    def spot(row: Row, name: str) -> Spot:
        return Spot(cost(row), 100 * row["metrics"][metric][0], name)

    lines: dict[int, list[Spot]] = {}
    for row in sorted(result["rows"], key=_size):
        asked = asked_of(row)
        if in_grid(asked) and asked.repetitions > 1:
            lines.setdefault(asked.buckets, []).append(spot(row, f"R {asked.repetitions}"))
    others = [
        spot(row, title(asked_of(row)))
        for row in result["rows"]
        if asked_of(row).preset and row.get("metrics") and asked_of(row) == Asked(asked_of(row).preset)
    ]
    named = [Line(f"B {buckets:,}", tuple(spots)) for buckets, spots in lines.items()]
    return Panel(result["name"], cost_name, f"{metric}, %", tuple(named), tuple(others))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="what bench.mach wrote")
    parser.add_argument(
        "--into", type=Path, required=True, help=f"a file, written anew below the line {MARK}"
    )
    parser.add_argument("--plot", type=Path, help="file for the figure")
    options = parser.parse_args(arguments)
    results = [json.loads(file.read_text()) for file in options.results]
    before = options.into.read_text().split(MARK)[0] if options.into.exists() else ""
    options.into.write_text(before + "\n\n".join([MARK, *map(section, results)]) + "\n")
    if options.plot is not None:
        options.plot.write_text(drawn("MACH: quality against bytes and seconds", panels(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
