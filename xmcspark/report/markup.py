"""Pieces of HTML that all sections are made of, and how numbers are written. Whatever comes from data is escaped here
or in `charts.py`; sections put only their own words and what these functions return into a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from typing import NamedTuple

NOTHING = "–"
BEFORE_KEY = '<b aria-hidden="true">|</b> the run published before'
_LONGEST_TEXT = 300


class Section(NamedTuple):
    """A part of the page that can be linked to by its name."""

    name: str
    html: str


def section(name: str, title: str, *parts: str) -> Section:
    body = "\n".join(part for part in parts if part)
    head = f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{escape(title)}</h2>'
    return Section(name, f"{head}\n{body}\n</section>")


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{classed(kind)}>{escape(text)}</p>"


def figure(title: str, explanation: str, chart: str, key: str = "") -> str:
    """A chart with its caption; `key` is HTML."""
    under = f'<p class="key">{key}</p>' if key else ""
    return f"<figure><figcaption>{escape(title)}<span>{escape(explanation)}</span></figcaption>{chart}{under}</figure>"


def grid(parts: Sequence[str]) -> str:
    """Side by side where there is room."""
    return f'<div class="grid">{"".join(parts)}</div>'


def beside(wide: str, narrow: str) -> str:
    """A wide part, and a narrow one beside it where there is room."""
    return f'<div class="beside">{wide}{narrow}</div>'


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int] = ()) -> str:
    """Cells are HTML, the first of each row is its heading; `texts` are columns that are read, not compared. It
    scrolls by itself where it is too wide."""
    heads = "".join(
        f'<th scope="col"{classed("text" if column in texts else "")}>{escape(name)}</th>'
        for column, name in enumerate(head)
    )
    lines = []
    for first, *others in rows:
        cells = "".join(
            f"<td{classed('text' if column in texts else '')}>{cell}</td>"
            for column, cell in enumerate(others, start=1)
        )
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def facts(values: Mapping[str, str]) -> str:
    """Short facts beside each other."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items()
    )
    return f'<dl class="facts">{items}</dl>'


def terms(values: Mapping[str, str]) -> str:
    """Words and what they mean."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in values.items())
    return f'<dl class="terms">{items}</dl>'


def shortened(text: str) -> str:
    """A text for reading at a glance; not escaped yet."""
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1].rstrip() + "…"


def sentence(text: str) -> str:
    """With a capital first, unless it is a setting's name, and a full stop last; not escaped yet."""
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    return ended if "." in ended.split(" ")[0][:-1] else ended[:1].upper() + ended[1:]


def counted(number: int, name: str) -> str:
    """So many of something whose plural ends with s."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}%" if isfinite(value) else NOTHING


def points(value: float) -> str:
    """A part of 1 as percent without the sign, as papers write metrics."""
    return f"{100 * value:.2f}" if isfinite(value) else NOTHING


def signed_points(value: float) -> str:
    rounded = round(100 * value, 2)
    return f"{'−' if rounded < 0 else '+'}{abs(rounded):.2f}"


def moment(iso: str) -> str:
    """A time in UTC as people write it, to the minute."""
    return f"{iso[:16].replace('T', ' ')} UTC"


def interval(low: float, high: float) -> str:
    """Both ends; nothing if there is no interval."""
    return f"{points(low)}–{points(high)}" if isfinite(low) and isfinite(high) else ""


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def size(number: float) -> str:
    """Of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def classed(kind: str) -> str:
    """As an attribute; nothing without one."""
    return f' class="{kind}"' if kind else ""
