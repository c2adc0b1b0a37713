"""Charts as inline SVG. Horizontal places are percentages and vertical ones pixels, so a chart fills its container
while its letters keep their size on a phone and on a wide screen. Each says what it shows in words as well."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

_ROW, _BAR = 40, 11  # pixels of a row of bars; of the bar in it
_COLUMNS = 150  # height of a histogram without its axis
_PLOT, _LEFT, _RIGHT = 280, 12.0, 97.0  # a scatter's height; percentages between which it is drawn


class Bar(NamedTuple):
    """A row: a value with its name, and an interval if it has one."""

    name: str
    value: float
    text: str  # the value as it is read
    low: float | None = None
    high: float | None = None
    before: float | None = None  # the value of another run, marked
    start: float = 0.0  # where the bar begins
    soft: bool = False  # of less weight


class Column(NamedTuple):
    """A column of a histogram."""

    tick: str  # below it
    name: str  # in full
    share: float
    before: float | None = None


class Range(NamedTuple):
    """A row from a smallest over a median to a largest number, all at least 1."""

    name: str
    low: float
    median: float
    high: float
    text: str


class Point(NamedTuple):
    """A place in a scatter, both above 0."""

    x: float
    y: float
    name: str


def bars(title: str, rows: Sequence[Bar], top: float | None = None) -> str:
    """Rows of bars from 0 to `top` (the largest of all there is, if not given)."""
    ends = [
        end
        for row in rows
        for end in (row.start + row.value, row.high, row.before)
        if end is not None and isfinite(end)
    ]
    top = max(ends, default=0.0) if top is None else top
    drawn = [_bar_row(place, row, top or 1.0) for place, row in enumerate(rows)]
    said = "; ".join(f"{row.name} {row.text}" for row in rows)
    return _svg(title, said, _ROW * len(rows), drawn)


def gauge(title: str, value: float, low: float, high: float, before: float | None) -> str:
    """One bar without words, from 0 to 1."""
    parts = [_rect(0, 3, 1, 8, "track")]
    if isfinite(value):
        parts.append(_rect(0, 3, value, 8, "mark"))
    parts += _interval(low, high, 7) + _mark(before, 0, 14)
    return _svg(title, "A bar from 0 to 100%.", 14, parts)


def columns(title: str, values: Sequence[Column]) -> str:
    """A histogram of shares."""
    top = max((share for c in values for share in (c.share, c.before or 0.0)), default=0.0) or 1.0
    width, gap = 1 / max(1, len(values)), min(0.12 / max(1, len(values)), 0.01)
    every = ceil(len(values) / 8)
    height, base = _COLUMNS - 18, _COLUMNS
    parts = []
    for place, column in enumerate(values):
        left, middle = place * width, (place + 0.5) * width
        tall = column.share / top * height
        drawn = [_rect(left + gap, base - tall, width - 2 * gap, tall, "mark")]
        if column.before is not None:
            y = base - column.before / top * height
            drawn.append(_line("before", left + gap, y, left + width - gap, y))
        if len(values) <= 16 and column.share >= 0.01:
            y = base - max(tall, (column.before or 0.0) / top * height) - 5
            drawn.append(_text(middle, y, f"{100 * column.share:.0f}%", "quiet", "middle"))
        if place % every == 0:
            drawn.append(_text(middle, base + 16, column.tick, "quiet", "middle"))
        parts.append(_told(f"{column.name}: {100 * column.share:.1f}%", drawn))
    parts.append(_line("grid-line", 0, base, 1, base))
    said = "; ".join(f"{column.name}: {100 * column.share:.1f}%" for column in values)
    return _svg(title, said, base + 22, parts)


def ranges(title: str, rows: Sequence[Range]) -> str:
    """From smallest to largest on one logarithmic axis, the median as a dot."""
    top = log10(max((row.high for row in rows), default=1.0)) or 1.0
    parts = []
    for place, row in enumerate(rows):
        y = place * _ROW
        low, median, high = (
            0.985 * log10(max(1.0, n)) / top + 0.0075 for n in (row.low, row.median, row.high)
        )
        middle = y + 27
        drawn = [
            _text(0, y + 14, row.name),
            _text(1, y + 14, row.text, "quiet", "end"),
            _line("grid-line", 0, middle, 1, middle),
            _line("span", low, middle, high, middle),
            f'<circle class="mark" cx="{_at(median)}" cy="{middle}" r="5"/>',
        ]
        parts.append(_told(f"{row.name}: {row.text}", drawn))
    said = "; ".join(f"{row.name}: {row.text}" for row in rows)
    return _svg(title, said, _ROW * len(rows), parts)


def scatter(title: str, said: str, points: Sequence[Point], x_name: str, y_name: str) -> str:
    """Shares against shares on logarithmic axes, with the line on which the two are equal."""
    shown = [value for point in points for value in (point.x, point.y)]
    first, last = floor(log10(min(shown))), ceil(log10(max(shown)))
    last += last == first
    bottom, height = _PLOT - 38, _PLOT - 62

    def across(value: float) -> float:
        return (_LEFT + (log10(value) - first) / (last - first) * (_RIGHT - _LEFT)) / 100

    def down(value: float) -> float:
        return bottom - (log10(value) - first) / (last - first) * height

    low, high, parts = 10.0**first, 10.0**last, []
    for power in range(first, last + 1):
        value, name = 10.0**power, _share_name(power)
        parts += [
            _line("grid-line", across(low), down(value), across(high), down(value)),
            _line("grid-line", across(value), bottom, across(value), bottom - height),
            _text(_LEFT / 100 - 0.012, down(value) + 4, name, "quiet", "end"),
            _text(across(value), bottom + 18, name, "quiet", "middle"),
        ]
    parts.append(_line("even", across(low), down(low), across(high), down(high)))
    for point in points:
        dot = f'<circle class="dot" cx="{_at(across(point.x))}" cy="{down(point.y):.1f}" r="4"/>'
        parts.append(_told(point.name, [dot]))
    parts.append(_text(_RIGHT / 100, _PLOT - 3, f"{x_name} →", "quiet", "end"))
    parts.append(_text(0, 10, f"↑ {y_name}", "quiet"))
    return _svg(title, said, _PLOT, parts)


def _bar_row(place: int, row: Bar, top: float) -> str:
    y = place * _ROW
    parts = [
        _text(0, y + 14, row.name),
        _text(1, y + 14, row.text, "quiet", "end"),
        _rect(0, y + 20, 1, _BAR, "track"),
    ]
    if isfinite(row.value):
        parts.append(_rect(row.start / top, y + 20, row.value / top, _BAR, "soft" if row.soft else "mark"))
    if row.low is not None and row.high is not None:
        parts += _interval(row.low / top, row.high / top, y + 20 + _BAR / 2)
    if row.before is not None:
        parts += _mark(row.before / top, y + 16, 19)
    return _told(f"{row.name}: {row.text}", parts)


def _interval(low: float, high: float, y: float) -> list[str]:
    """A line between both ends with a stroke across each."""
    if not (isfinite(low) and isfinite(high)):
        return []
    ends = [_line("error", end, y - 4, end, y + 4) for end in (low, high)]
    return [_line("error", low, y, high, y), *ends]


def _mark(value: float | None, y: float, height: float) -> list[str]:
    if value is None or not isfinite(value):
        return []
    return [f'<line class="before" x1="{_at(value)}" x2="{_at(value)}" y1="{y:.1f}" y2="{y + height:.1f}"/>']


def _svg(title: str, said: str, height: float, parts: Sequence[str]) -> str:
    name = escape(title)
    return (
        f'<svg role="img" aria-label="{name}" width="100%" height="{height:g}"><title>{name}</title>'
        f"<desc>{escape(said)}</desc>{''.join(parts)}</svg>"
    )


def _told(words: str, parts: Sequence[str]) -> str:
    """Parts that say something when a pointer rests on them."""
    return f"<g><title>{escape(words)}</title>{''.join(parts)}</g>"


def _rect(left: float, y: float, width: float, height: float, kind: str) -> str:
    x, wide = _at(left), _at(max(0.0, width))
    return f'<rect class="{kind}" x="{x}" y="{y:.1f}" width="{wide}" height="{height:.1f}" rx="2"/>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{_at(x1)}" y1="{y1:.1f}" x2="{_at(x2)}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    kinds = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{_at(x)}" y="{y:.1f}"{kinds}{place}>{escape(words)}</text>'


def _at(share: float) -> str:
    """A part of the width."""
    return f"{100 * share:.2f}%"


def _share_name(power: int) -> str:
    return f"{10.0 ** (power + 2):g}%"
