"""The tables of bench.transformers as Markdown and quality against seconds as SVG, from its results.

    .venv/bin/python -m bench.transformers_report RESULTS ... --into bench/TRANSFORMERS.md --plot bench/transformers.svg

Results of the same dataset make one section. What stands above the line MARK in the file stays: conclusions are written
by people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.table import text_table
from bench.tradeoff_plot import Line, Panel, Spot, drawn
from bench.transformers import verdict
from bench.transformers_steps import TOP_K, Asked
from bench.transformers_studies import ANCHOR, LONG, SUBSET_LENGTH
from xmcspark.neural.unidec.settings import UnidecSettings

MARK = "<!-- From here on written by bench.transformers_report. -->"
_QUALITY = (*(f"{metric}@{k}" for metric in ("P", "PSP") for k in (1, 3, 5)), f"R@{TOP_K}")
_SECONDS = ("fine-tuning", "ranking", "embedding test", "search", "all")
_AIM, _OURS = "X-Transformer", "XR-Transformer"

Result = dict[str, Any]
Row = dict[str, Any]


def asked_of(row: Row) -> Asked:
    return Asked(**row["asked"])


def is_ablation(result: Result) -> bool:
    """Those read texts to a length of their own: that is how the two kinds of results are told apart."""
    lengths = {asked_of(row).changes.get("encoder.max_length") for row in result["rows"].values()}
    return not lengths.isdisjoint((SUBSET_LENGTH, LONG))


def seconds_of(row: Row) -> dict[str, float]:
    """By part. Ranking is all of training but fine-tuning: embedding, matchers on the way, tree, matchers."""
    found = {"all": float(row["seconds"])}
    if "train_s" in row:
        tuning = sum(float(level["seconds"]) for level in row["levels"])
        found |= {"fine-tuning": tuning, "ranking": float(row["train_s"]) - tuning}
        found |= {"embedding test": float(row["embed_s"]), "search": float(row["search_s"])}
    return found


def headline_table(result: Result) -> str:
    shown = [["", *_QUALITY, *(f"{part} s" for part in _SECONDS), "peak MB"]]
    for row in result["rows"].values():
        seconds = seconds_of(row)
        costs = [f"{seconds[part]:,.0f}" if part in seconds else "" for part in _SECONDS]
        shown.append([_title(result, row), *_quality([row]), *costs, f"{row['peak_mb']:,.0f}"])
    shown += [
        [f"{found['name']} (fused)", *_quality([found]), *("" for _ in _SECONDS), ""]
        for found in result.get("ensembles", [])
    ]
    return text_table(shown)


def ablation_table(result: Result) -> str:
    """Means over seeds, fused ones last."""
    shown = [["", "seeds", *_QUALITY, "all s", "peak MB"]]
    for name, rows in _by_name(result["rows"].values(), lambda row: asked_of(row).name):
        costs = [f"{mean(float(row[key]) for row in rows):,.0f}" for key in ("seconds", "peak_mb")]
        shown.append([name, str(len(rows)), *_quality(rows), *costs])
    for name, rows in _by_name(result.get("ensembles", []), lambda row: str(row["name"])):
        seeds = {label.rpartition(" ")[2] for row in rows for label in row["members"]}
        shown.append([f"{name} (fused)", str(len(seeds)), *_quality(rows), "", ""])
    return text_table(shown)


def gains_table(result: Result) -> str:
    """Each row's quality relative to the anchor's (paper 3, table 6), means over seeds; "" without an anchor."""
    groups = dict(_by_name(result["rows"].values(), lambda row: asked_of(row).name))
    if len(groups) < 2 or ANCHOR not in groups:
        return ""
    anchor = {name: _mean(groups[ANCHOR], name) for name in _QUALITY}
    shown = [[f"gain over {ANCHOR}, %", *_QUALITY]]
    for title, rows in groups.items():
        if title != ANCHOR:
            gains = (100 * (_mean(rows, name) / anchor[name] - 1) for name in _QUALITY)
            shown.append([title, *(f"{gain:+.2f}" for gain in gains)])
    return text_table(shown)


def directions_table(result: Result) -> str:
    """For each claim and metric: verdict, mean difference in points over seeds, and its interval; "" without any."""
    found = result.get("directions", [])
    if not found:
        return ""
    metrics = list(found[0]["differences"])
    shown = [["claim", "better - other", "seeds", *metrics]]
    for claim, rows in _by_name(found, lambda row: str(row["claim"])):
        falling = tuple(rows[0].get("falls", ()))
        cells = [
            _judged([row["differences"][metric] for row in rows], metric.startswith(falling))
            for metric in metrics
        ]
        pair = f"{rows[0]['better']} - {rows[0]['other']}"
        shown.append([claim, pair, str(len(rows)), *cells])
    return text_table(shown)


def _judged(differences: list[list[float]], falls: bool) -> str:
    points = [100 * mean(one[at] for one in differences) for at in range(3)]
    return f"{verdict(differences, falls)} {points[0]:+.2f} [{points[1]:+.2f}, {points[2]:+.2f}]"


def pools_table(result: Result) -> str:
    """What UniDEC's batches were like and what they cost (paper 5, table 2.3), means over seeds; "" without any."""
    groups = _by_name(_unidec_rows(result), lambda row: asked_of(row).name)
    shown = [["", "queries", "labels", "positives of a query", "P@1", "PSP@5", "fine-tuning s", "peak MB"]]
    for title, rows in groups:
        tasks = [task for row in rows for task in row["levels"]]
        queries = asked_of(rows[0]).changes.get("unidec.batch_size", UnidecSettings().batch_size)
        labels, positives = (mean(task[key] for task in tasks) for key in ("pool_labels", "pool_positives"))
        wide = [task["classifier_pool_labels"] for task in tasks if "classifier_pool_labels" in task]
        quality = (f"{100 * _mean(rows, name):.2f}" for name in ("P@1", "PSP@5"))
        costs = mean(seconds_of(row)["fine-tuning"] for row in rows), mean(row["peak_mb"] for row in rows)
        shown.append(
            [
                title,
                str(queries),
                " / ".join(f"{count:,.0f}" for count in (labels, *([mean(wide)] if wide else []))),
                f"{positives:.2f}",
                *quality,
                *(f"{c:,.0f}" for c in costs),
            ]
        )
    return text_table(shown) if len(shown) > 1 else ""


def spaces_table(result: Result) -> str:
    """Models with two heads, searched by each alone; "" without any."""
    shown = [["", "searched by", *_QUALITY]]
    for row in _unidec_rows(result):
        found = [{"metrics": metrics} for metrics in row["spaces"].values()]
        for space, one in zip(row["spaces"], found, strict=True):
            shown.append([asked_of(row).label, f"its {space} head", *_quality([one])])
    return text_table(shown) if len(shown) > 1 else ""


def zero_shot_table(result: Result) -> str:
    """Labels that no training row had, found by their texts, means over seeds; "" without any."""
    rows = [row for row in _unidec_rows(result) if row.get("zero_shot")]
    metric = f"R@{TOP_K}"
    shown = [["", "labels not trained", "of them in test rows", metric]]
    for title, group in _by_name(rows, lambda row: asked_of(row).name):
        counts = (f"{group[0]['zero_shot'][key]:,}" for key in ("labels", "pairs"))
        shown.append([title, *counts, f"{100 * mean(row['zero_shot'][metric] for row in group):.2f}"])
    return text_table(shown) if len(shown) > 1 else ""


def _unidec_rows(result: Result) -> list[Row]:
    return [row for row in result["rows"].values() if asked_of(row).method == "unidec"]


def curve_table(result: Result) -> str:
    """Quality at moments of fine-tuning; "" if that was not measured."""
    shown = [["", "moment", "fine-tuning s", "with ranking s", "P@1", "95%"]]
    for row in result["rows"].values():
        for point in row.get("curve", []):
            value, low, high = (100 * number for number in point["P@1"])
            seconds = (f"{point[key]:,.0f}" for key in ("fine_tuning_s", "seconds"))
            interval = f"{low:.2f} to {high:.2f}"
            shown.append([_title(result, row), point["moment"], *seconds, f"{value:.2f}", interval])
    return text_table(shown) if len(shown) > 1 else ""


def time_to_the_same(result: Result) -> str:
    """When XR-Transformer first was as good as X-Transformer in the end, seed by seed; "" without both curves."""
    curves = {
        (asked_of(row).name, asked_of(row).seed): row["curve"]
        for row in result["rows"].values()
        if row.get("curve")
    }
    lines = []
    for name, seed in curves:
        if name != _OURS or (_AIM, seed) not in curves:
            continue
        aim = curves[_AIM, seed][-1]
        reached = next((point for point in curves[_OURS, seed] if point["P@1"][0] >= aim["P@1"][0]), None)
        what = f"{_AIM}'s final P@1 of {100 * aim['P@1'][0]:.2f} (after {aim['seconds']:,.0f} s)"
        lines.append(
            f"- seed {seed}: {_OURS} did not reach {what}."
            if reached is None
            else f"- seed {seed}: {_OURS} reached {what} after {reached['seconds']:,.0f} s ({reached['moment']}), "
            f"{reached['seconds'] / aim['seconds']:.2f} of the time."
        )
    return "\n".join(lines)


def peers_table(result: Result) -> str:
    """Other systems on the same data, encoder and steps; "" if none was run."""
    shown = [["", *_QUALITY, "train s", "predict s", "peak MB"]]
    for name, row in result.get("peers", {}).items():
        costs = [f"{row[key]:,.0f}" for key in ("train_s", "predict_s", "peak_mb")]
        shown.append([name, *_quality([row]), *costs])
    return text_table(shown) if len(shown) > 1 else ""


def peers_differences(result: Result) -> str:
    """Ours less theirs, where both were run; "" if not."""
    lines = []
    for name, row in result.get("peers", {}).items():
        cells = [
            f"{metric} {100 * value:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"
            for metric, (value, low, high) in row.get("differences", {}).items()
        ]
        lines += [f"- {_OURS} - {name}, in points: {', '.join(cells)}."] if cells else []
    return "\n".join(lines)


def section(name: str, results: Sequence[Result]) -> str:
    """All about one dataset."""
    parts = [f"## {name}"]
    for result in results:
        machine = result["machine"]
        rows = sorted({asked_of(row).rows for row in result["rows"].values()})
        trained_on = ", ".join(f"{count:,} training rows" if count else "all training rows" for count in rows)
        parts.append(f"### {_kind(result)}: {trained_on}")
        about = f"{_threads(result)}, {machine['cpu']}, {machine['cores']} cores"
        parts.append(". ".join(filter(None, [about, _settings(result), _dates(result)])) + ".")
        parts.append((ablation_table if is_ablation(result) else headline_table)(result))
        if pools := pools_table(result):
            parts += ["Batches of UniDEC: queries and labels of a step, and what they cost:", pools]
        if spaces := spaces_table(result):
            parts += ["One head of a model with both:", spaces]
        if unseen := zero_shot_table(result):
            parts += ["Labels that no training row had, by their texts among all labels:", unseen]
        if gains := gains_table(result):
            parts += [f"Relative to {ANCHOR} (as in paper 3, table 6):", gains]
        if peers := peers_table(result):
            parts += ["Other systems on the same rows, encoder, steps, batch size and length:", peers]
            parts.append(peers_differences(result))
        if curve := curve_table(result):
            parts += [
                "Quality at moments of fine-tuning, each ranked as if it had ended then:",
                curve,
                time_to_the_same(result),
            ]
        if directions := directions_table(result):
            parts += ["Directions, in points, with the interval of a paired bootstrap:", directions]
    return "\n\n".join(filter(None, parts))


def _kind(result: Result) -> str:
    """What it is called: by a person (`title` in its file), or by what it is."""
    return str(result.get("title") or ("Ablations" if is_ablation(result) else "Headline"))


def _threads(result: Result) -> str:
    return "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"


def _settings(result: Result) -> str:
    """What the rows that were fine-tuned have in common, as settings; "" if nothing was set."""
    every = [asked_of(row) for row in result["rows"].values()]
    encoded = [asked.changes for asked in every if asked.method == "unidec" or "transformer" in asked.method]
    changed = [changes for changes in encoded if changes.get("encoder.epochs") != 0]
    if not changed:
        return ""
    shared = set.intersection(*({(key, str(value)) for key, value in changes.items()} for changes in changed))
    return ", ".join(f"{key} {value}" for key, value in sorted(shared))


def _dates(result: Result) -> str:
    dates = sorted({row["date"] for row in result["rows"].values() if "date" in row})
    return f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""


def panels(results: Iterable[Result]) -> list[Panel]:
    """P@1 against seconds until there is a model: a line where moments were measured, else a spot."""
    found = []
    for result in results:
        if is_ablation(result):
            continue
        rows = list(result["rows"].values())
        lines = [
            Line(
                _title(result, row),
                tuple(
                    Spot(point["seconds"], 100 * point["P@1"][0], point["moment"]) for point in row["curve"]
                ),
            )
            for row in rows
            if row.get("curve")
        ]
        others = [
            Spot(row.get("train_s", row["seconds"]), 100 * row["metrics"]["P@1"][0], _title(result, row))
            for row in rows
            if not row.get("curve")
        ]
        others += [
            Spot(row["train_s"], 100 * row["metrics"]["P@1"][0], name)
            for name, row in result.get("peers", {}).items()
        ]
        name = ": ".join(filter(None, [result["name"], result.get("title")]))
        found.append(Panel(name, "training, seconds", "P@1, %", tuple(lines), tuple(others)))
    return found


def _title(result: Result, row: Row) -> str:
    """Its name; with the seed where there are several."""
    asked = asked_of(row)
    several = len({asked_of(other).seed for other in result["rows"].values()}) > 1
    return asked.label if several else asked.name


def _by_name(rows: Iterable[Row], name_of: Any) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name_of(row), []).append(row)
    return list(groups.items())


def _quality(rows: Sequence[Row]) -> list[str]:
    return [f"{100 * _mean(rows, name):.2f}" for name in _QUALITY]


def _mean(rows: Sequence[Row], name: str) -> float:
    return mean(float(row["metrics"][name][0]) for row in rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="what bench.transformers wrote")
    parser.add_argument(
        "--into", type=Path, required=True, help=f"a file, written anew below the line {MARK}"
    )
    parser.add_argument("--plot", type=Path, help="file for the figure")
    options = parser.parse_args(arguments)
    results = [json.loads(file.read_text()) for file in options.results]
    sections = [section(name, group) for name, group in _by_name(results, lambda found: str(found["name"]))]
    before = options.into.read_text().split(MARK)[0] if options.into.exists() else ""
    options.into.write_text(before + "\n\n".join([MARK, *sections]) + "\n")
    if options.plot is not None:
        if not (shown := panels(results)):
            parser.error("--plot: none of the results is a headline, which is what the figure shows")
        options.plot.write_text(drawn("Transformers: quality against seconds", [shown]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
