"""Charts at their edges: nothing, one, nothing but zeros, far apart."""

import re
from math import nan

import pytest
from page_outline import Outline

from xmcspark.report.charts import Bar, Column, Point, Range, bars, columns, gauge, ranges, scatter

EDGES = {
    "no bars": bars("t", []),
    "zeros": bars("t", [Bar("a", 0.0, "0"), Bar("b", 0.0, "0")]),
    "not a number": bars("t", [Bar("a", nan, "unknown"), Bar("b", 0.5, "half", low=0.4, high=0.6)]),
    "no columns": columns("t", []),
    "empty columns": columns("t", [Column("1", "1", 0.0)]),
    "many columns": columns("t", [Column(str(n), str(n), 1 / 40) for n in range(40)]),
    "one range": ranges("t", [Range("root", 1.0, 1.0, 1.0, "1")]),
    "one point": scatter("t", "", [Point(0.1, 0.1, "a")], "x", "y"),
    "far points": scatter("t", "", [Point(1e-6, 1.0, "a"), Point(1.0, 1e-6, "b")], "x", "y"),
    "unknown gauge": gauge("t", nan, nan, nan, None),
}


@pytest.mark.parametrize("chart", EDGES.values(), ids=EDGES)
def test_everything_lies_inside(chart):
    Outline(chart)
    assert "nan" not in chart
    assert "inf" not in chart
    for attribute, place in re.findall(r'\b(x|x1|x2|cx|width)="(-?[\d.]+)%"', chart):
        assert 0 <= float(place) <= 100, attribute
    height = float(re.search(r'height="([\d.]+)">', chart).group(1))
    for place in re.findall(r'\b(?:y|y1|y2|cy)="(-?[\d.]+)"', chart):
        assert 0 <= float(place) <= height


def test_bars_are_as_long_as_their_values():
    chart = bars("t", [Bar("a", 1.0, "1"), Bar("b", 0.25, "¼")])
    assert re.findall(r'class="mark" x="0.00%" y="[\d.]+" width="([\d.]+)%"', chart) == ["100.00", "25.00"]


def test_equal_shares_lie_on_the_line():
    chart = scatter("t", "", [Point(0.01, 0.01, "a"), Point(0.2, 0.2, "b"), Point(0.001, 1.0, "c")], "x", "y")
    x1, y1, x2, y2 = map(
        float,
        re.search(r'class="even" x1="([\d.]+)%" y1="([\d.]+)" x2="([\d.]+)%" y2="([\d.]+)"', chart).groups(),
    )
    for x, y in [tuple(map(float, dot)) for dot in re.findall(r'cx="([\d.]+)%" cy="([\d.]+)"', chart)][:2]:
        assert y == pytest.approx(y1 + (x - x1) / (x2 - x1) * (y2 - y1), abs=0.2)


def test_what_a_chart_shows_is_said():
    assert "a ten; b two" in bars("t", [Bar("a", 10, "ten"), Bar("b", 2, "two")])
    assert "<desc>2–3: 75.0%; 4–7: 25.0%</desc>" in columns(
        "t", [Column("2", "2–3", 0.75), Column("4", "4–7", 0.25)]
    )
