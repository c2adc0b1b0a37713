"""How good the model is: headline metrics, all metrics, head against tail, and a few predictions to look at."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite, nan
from typing import NamedTuple

from xmcspark.quality.metric_sums import MetricRow
from xmcspark.report.charts import Bar, bars, gauge
from xmcspark.report.data import Example, Previous, ReportData
from xmcspark.report.headlines import headlines, nearest
from xmcspark.report.markup import (
    BEFORE_KEY,
    NOTHING,
    Section,
    beside,
    classed,
    counted,
    figure,
    grid,
    interval,
    paragraph,
    percent,
    points,
    section,
    shortened,
    signed_points,
    table,
    terms,
)

_MEANINGS = {
    "P@k": "share of the first k predictions that are true",
    "R@k": "share of an instance's true labels among the first k",
    "nDCG@k": "like P@k, but the first places count more",
    "PSP@k, PSnDCG@k": "the same with rare labels counting more (propensity-scored), as a share of the best possible",
    "wR@k": "R@k with labels weighed by their relevance",
    "coverage@k": "share of the labels that occur that were found at least once",
    "macro-F1@k": "F1 of each label, averaged over all labels; micro-F1 pools them",
    "interval": "95%, over which instances happened to be in the test split",
}
_BIN_NAMES = {
    "q1": "most frequent fifth",
    "q5": "rarest fifth",
    "head": "head",
    "torso": "torso",
    "tail": "tail",
}
_ANSWERS = 5


class _BinChart(NamedTuple):
    metric: str
    title: str
    meaning: str


_BIN_CHARTS = (
    _BinChart("R", "Recall", "Of the true labels of a bin, how many are found"),
    _BinChart("coverage", "Coverage", "Of the labels of a bin that occur, how many are found at least once"),
    _BinChart(
        "P", "What makes up P", "Hits by the bin of the label that was hit; the bars add up to the whole"
    ),
)


class _Metrics:
    """The metrics of a run by metric, k and bin."""

    def __init__(self, rows: Sequence[MetricRow]) -> None:
        self.rows = rows
        self._places = {(row.metric, row.k, row.bin): row for row in rows}
        self.ks = sorted({row.k for row in rows})
        self.names = list(dict.fromkeys(row.metric for row in rows))
        self.bins = list(dict.fromkeys(row.bin for row in rows))

    def at(self, metric: str, k: int, bin: str = "all") -> MetricRow | None:
        """None where there is none, or nothing to average over."""
        row = self._places.get((metric, k, bin))
        return row if row is not None and isfinite(row.value) else None


def quality(data: ReportData) -> Section:
    """Headlines with what they were, then everything."""
    metrics = _Metrics(data.metrics)
    if not any(isfinite(row.value) for row in data.metrics):
        why = (
            "Nothing could be averaged over."
            if data.metrics
            else "There was no test split: nothing was evaluated."
        )
        return section("quality", "Quality", paragraph(why))
    first = metrics.at("P", metrics.ks[0])
    over = f" of {counted(first.n, 'instance')}" if first is not None else ""
    return section(
        "quality",
        "Quality on the test split",
        paragraph(
            f"Percent, over all labels{over}; beneath each value its 95% interval, where there is one."
        ),
        _cards(metrics, data.previous),
        beside(_all_metrics(metrics), terms(_MEANINGS)),
    )


def _cards(metrics: _Metrics, previous: Previous | None) -> str:
    before = _Metrics(previous.metrics) if previous is not None else None
    cards = [
        _card(row, before.at(name, k) if before is not None else None)
        for name, k in headlines(metrics.rows)
        if (row := metrics.at(name, k)) is not None
    ]
    key = ""
    if any('class="before"' in card for card in cards) and previous is not None:
        key = f'<p class="key">{BEFORE_KEY}, {escape(previous.run)}</p>'
    return f'<ul class="cards">{"".join(cards)}</ul>{key}'


def _card(row: MetricRow, before: MetricRow | None) -> str:
    name = f"{row.metric}@{row.k}"
    bounds = interval(row.low, row.high)
    change = _change(row, before) if before is not None else ""
    chart = gauge(
        f"{name} is {percent(row.value)}", row.value, row.low, row.high, before.value if before else None
    )
    return (
        f'<li><span class="name">{escape(name)}</span><span class="value">{points(row.value)}<small> %</small></span>'
        f'<span class="note">{bounds}</span>{chart}{change}</li>'
    )


def _change(row: MetricRow, before: MetricRow) -> str:
    """Coloured only if the intervals are apart: less may be chance."""
    difference = row.value - before.value
    apart = row.low > before.high or row.high < before.low
    kind = ("good" if difference > 0 else "bad") if apart else ""
    return f'<span class="note {kind}">{signed_points(difference)} from {points(before.value)}</span>'


def _all_metrics(metrics: _Metrics) -> str:
    rows = [
        [escape(name), *(_cell(metrics.at(name, k)) for k in metrics.ks)]
        for name in metrics.names
        if any(metrics.at(name, k) for k in metrics.ks)
    ]
    return table("All metrics, percent", ["metric", *(f"@{k}" for k in metrics.ks)], rows)


def _cell(row: MetricRow | None) -> str:
    if row is None:
        return NOTHING
    bounds = interval(row.low, row.high)
    return points(row.value) + (f"<small>{bounds}</small>" if bounds else "")


def head_to_tail(data: ReportData) -> Section | None:
    """By label frequency: fifths of equal volume as bars, head, torso and tail as a table."""
    metrics = _Metrics(data.metrics)
    fifths = [name for name in metrics.bins if name.startswith("q")]
    if not fifths:
        return None
    k = nearest(metrics.ks, 5)
    before = _Metrics(data.previous.metrics if data.previous is not None else ())
    charts = [_bin_chart(metrics, before, k, fifths, chart) for chart in _BIN_CHARTS]
    charts = [chart for chart in charts if chart]
    if not charts:
        return None
    named = [name for name in ("head", "torso", "tail") if name in metrics.bins]
    return section(
        "head-to-tail",
        "From head to tail",
        paragraph(
            "Labels ordered by how often they occur in training, and divided into bins that hold a fifth of all "
            "positives each: the first has the few most frequent labels, the last the many rare ones."
        ),
        grid(charts),
        _limits_table(metrics, named, k) if named else "",
    )


def _bin_chart(metrics: _Metrics, before: _Metrics, k: int, bins: list[str], chart: _BinChart) -> str:
    rows = []
    for name in bins:
        row, old = metrics.at(chart.metric, k, name), before.at(chart.metric, k, name)
        named, marked = _bin_name(metrics, name, k), old.value if old is not None else None
        if row is None:
            rows.append(Bar(named, nan, "nothing to measure", before=marked))
        else:
            rows.append(Bar(named, row.value, percent(row.value), row.low, row.high, marked))
    if not any(isfinite(row.value) for row in rows):
        return ""
    title = f"{chart.title}@{k}"
    drawn = bars(f"{title} from the most frequent to the rarest labels", rows)
    return figure(title, chart.meaning, drawn, BEFORE_KEY if 'class="before"' in drawn else "")


def _bin_name(metrics: _Metrics, name: str, k: int) -> str:
    """With the number of its labels, which macro-F1 is over."""
    words = _BIN_NAMES.get(name) or f"fifth {name.removeprefix('q')}"
    labels = metrics.at("macro-F1", k, name)
    return f"{words}, {labels.n:,} labels" if labels is not None else words


def _limits_table(metrics: _Metrics, names: Sequence[str], k: int) -> str:
    limits = {"head": "more than 100", "torso": "10 to 100", "tail": "fewer than 10"}
    shown = [name for name in ("R", "coverage", "macro-F1", "P", "PSP") if metrics.at(name, k, "all")]
    rows = []
    for name in names:
        labels = metrics.at("macro-F1", k, name)  # over all labels of the bin; none if there are none
        cells = [_cell(metrics.at(metric, k, name) if labels else None) for metric in shown]
        rows.append([f"{name}: {limits[name]}", f"{labels.n:,}" if labels else "0", *cells])
    head = ["training positives", "labels", *(f"{metric}@{k}" for metric in shown)]
    return table("By fixed limits, percent; P and PSP are parts of the whole", head, rows)


def example_predictions(data: ReportData) -> Section | None:
    if not data.examples:
        return None
    return section(
        "examples",
        "A few predictions",
        paragraph(
            "Test instances chosen by a hash of their ids, with the best labels and their scores; ✓ marks true ones."
        ),
        grid([_example(example) for example in data.examples]),
    )


def _example(example: Example) -> str:
    items = []
    for name, score, right in example.answers[:_ANSWERS]:
        mark = (
            '&nbsp;<span aria-hidden="true">✓</span><span class="hidden"> (true label)</span>'
            if right
            else ""
        )
        items.append(
            f'<li{classed("true" if right else "")}><span class="name">{escape(shortened(name))}{mark}</span>'
            f'<span class="number">{score:.3f}</span></li>'
        )
    found = sum(right for _, _, right in example.answers)
    said = f"{found} of {counted(example.true_labels, 'true label')} among {len(example.answers)} predictions"
    return (
        f"<article><h3>{escape(shortened(example.text))}</h3>"
        f'<ol class="answers">{"".join(items)}</ol><p class="small muted">{said}</p></article>'
    )
