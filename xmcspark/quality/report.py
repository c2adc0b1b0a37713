"""The report of a run: one HTML page with everything on it, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple


class Example(NamedTuple):
    """An instance and what was predicted for it."""

    text: str
    answers: list[tuple[str, float, bool]]  # name, score, whether it is a true label


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2.2rem }
table { border-collapse: collapse }
td, th { padding: .25rem .8rem .25rem 0; text-align: right; font-variant-numeric: tabular-nums }
th { font-weight: 600; border-bottom: 1px solid #bbb } td:first-child, th:first-child { text-align: left }
.bar { background: #4a7fb5; height: .7rem; display: inline-block; border-radius: 2px }
.track { width: 16rem; text-align: left } .right { color: #17692f; font-weight: 600 } .muted { color: #777 }
"""


def report_page(summary: dict[str, Any], metrics: list[Any], examples: list[Example]) -> str:
    """The page of a run from its summary, its metrics and a few predictions."""
    parts = [
        f"<h1>Run {escape(summary['run'])}</h1>",
        f"<p class=muted>{summary['seconds']:.0f} seconds</p>",
        "<h2>Quality on the test split</h2>",
        _metrics_table(metrics) if metrics else "<p>There was no test split.</p>",
        "<h2>Where the time went</h2>",
        _stage_table(summary["stages"]),
    ]
    if examples:
        parts += ["<h2>A few predictions</h2>", *(_example(example) for example in examples)]
    body = "\n".join(parts)
    title = f"xmcspark run {escape(summary['run'])}"
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{title}</title>\n"
        f"<style>{_STYLE}</style>\n<body>\n{body}\n</body></html>\n"
    )


def _metrics_table(metrics: list[Any]) -> str:
    overall = [row for row in metrics if row["bin"] == "all"]
    ks = sorted({row["k"] for row in overall})
    names = list(dict.fromkeys(row["metric"] for row in overall))
    value = {(row["metric"], row["k"]): row["value"] for row in overall}
    head = "".join(f"<th>@{k}</th>" for k in ks)
    rows = [f"<tr><td>{escape(name)}</td>{_cells(value, name, ks)}</tr>" for name in names]
    return f"<table><tr><th>metric</th>{head}</tr>{''.join(rows)}</table>"


def _cells(value: dict[tuple[str, int], float | None], name: str, ks: list[int]) -> str:
    found = (value.get((name, k)) for k in ks)
    return "".join(
        "<td class=muted>–</td>" if v is None or v != v else f"<td>{100 * v:.2f}</td>" for v in found
    )


def _stage_table(stages: list[dict[str, Any]]) -> str:
    longest = max((stage["seconds"] for stage in stages), default=0) or 1
    rows = []
    for stage in stages:
        width = 100 * stage["seconds"] / longest
        seconds = "earlier" if stage["skipped"] else f"{stage['seconds']:.1f} s"
        written = sum(stage["rows"].values())
        rows.append(
            f"<tr><td>{escape(stage['stage'])}</td><td>{written:,}</td><td>{seconds}</td>"
            f"<td class=track><span class=bar style='width:{width:.1f}%'></span></td></tr>"
        )
    return f"<table><tr><th>stage</th><th>rows</th><th>time</th><th></th></tr>{''.join(rows)}</table>"


def _example(example: Example) -> str:
    answers = "".join(
        f"<tr><td{' class=right' if right else ''}>{escape(name)}</td><td>{score:.3f}</td></tr>"
        for name, score, right in example.answers[:5]
    )
    return f"<p><b>{escape(example.text)}</b></p><table>{answers}</table>"
