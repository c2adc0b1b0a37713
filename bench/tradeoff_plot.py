"""Lines and spots in panels as one SVG file that stands alone: cost to the right, logarithmic, and quality upwards.
Decides the ranges of the axes and where names go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 380, 270  # of a panel, with its axes
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 62, 30, 40
_STYLE = """
text { font: 11px system-ui, sans-serif; fill: #444 } .name { font-weight: 600; fill: #111 }
.grid { stroke: #ddd } .line { fill: none; stroke-width: 2 } .other { fill: #c2410c } text.other { fill: #9a3412 }
.s0 { stroke: #93c5fd } .s1 { stroke: #3b82f6 } .s2 { stroke: #1d4ed8 } .s3 { stroke: #172554 }
circle.s0 { fill: #93c5fd } circle.s1 { fill: #3b82f6 } circle.s2 { fill: #1d4ed8 } circle.s3 { fill: #172554 }
""".strip()
_SHADES = 4


@dataclass(frozen=True)
class Spot:
    cost: float  # above 0
    quality: float
    name: str


@dataclass(frozen=True)
class Line:
    name: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class Panel:
    title: str
    cost: str  # names of the axes
    quality: str
    lines: tuple[Line, ...]
    others: tuple[Spot, ...]

    @property
    def spots(self) -> list[Spot]:
        return [spot for line in self.lines for spot in line.spots] + list(self.others)


def drawn(title: str, panels: Sequence[Sequence[Panel]]) -> str:
    """Panels in rows."""
    width, height = _WIDTH * max(map(len, panels)), _HEIGHT * len(panels)
    parts = [
        f'<g transform="translate({column * _WIDTH} {row * _HEIGHT})">{_panel(panel)}</g>'
        for row, some in enumerate(panels)
        for column, panel in enumerate(some)
        if panel.spots
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(panel: Panel) -> str:
    scale = _Scale(panel.spots)
    parts = [*_axes(panel, scale)]
    for place, line in enumerate(panel.lines):
        kind = f"s{min(place, _SHADES - 1) if len(panel.lines) > 1 else 1}"
        points = " ".join(f"{scale.x(spot.cost):.1f},{scale.y(spot.quality):.1f}" for spot in line.spots)
        parts.append(f'<polyline class="line {kind}" points="{points}"/>')
        parts += [_spot(scale, spot, kind, f"{line.name} {spot.name}") for spot in line.spots]
    parts += [_spot(scale, spot, "other", spot.name) for spot in panel.others]
    ends = [(line.spots[-1], line.name, "") for line in panel.lines if line.spots]
    names = [*ends, *((spot, spot.name, "other") for spot in panel.others)]
    parts += _names(scale, names)
    return "".join(parts)


class _Scale:
    """From cost and quality to pixels of a panel."""

    def __init__(self, spots: Sequence[Spot]) -> None:
        costs, qualities = [spot.cost for spot in spots], [spot.quality for spot in spots]
        self.low, self.high = log10(min(costs)) - 0.05, log10(max(costs)) + 0.05
        self.step = _round_step((max(qualities) - min(qualities)) / 4)
        self.bottom = self.step * floor(min(qualities) / self.step)
        self.top = self.step * max(ceil(max(qualities) / self.step), floor(min(qualities) / self.step) + 1)

    def x(self, cost: float) -> float:
        return _LEFT + (log10(cost) - self.low) / (self.high - self.low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, quality: float) -> float:
        share = (quality - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    @property
    def costs(self) -> list[float]:
        """1, 2, 5, 10, ... within the axis."""
        powers = range(floor(self.low), ceil(self.high) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [cost for cost in found if self.low <= log10(cost) <= self.high]

    @property
    def qualities(self) -> list[float]:
        count = round((self.top - self.bottom) / self.step)
        return [self.bottom + self.step * number for number in range(count + 1)]


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least this."""
    power = 10.0 ** floor(log10(max(least, 1e-6)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))


def _axes(panel: Panel, scale: _Scale) -> list[str]:
    floor_y, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<text class="name" x="{_LEFT}" y="14">{escape(panel.title)}</text>',
        f'<text x="{right}" y="14" text-anchor="end">↑ {escape(panel.quality)}</text>',
        f'<text x="{right}" y="{_HEIGHT - 6}" text-anchor="end">{escape(panel.cost)} →</text>',
    ]
    for quality in scale.qualities:
        y = scale.y(quality)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{quality:g}</text>')
    for cost in scale.costs:
        x = scale.x(cost)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{floor_y}"/>')
        parts.append(f'<text x="{x:.1f}" y="{floor_y + 15}" text-anchor="middle">{cost:g}</text>')
    return parts


def _spot(scale: _Scale, spot: Spot, kind: str, name: str) -> str:
    words = f"{name}: {spot.quality:.2f} for {spot.cost:,.1f}"
    return (
        f'<circle class="{kind}" cx="{scale.x(spot.cost):.1f}" cy="{scale.y(spot.quality):.1f}" r="3.5">'
        f"<title>{escape(words)}</title></circle>"
    )


def _names(scale: _Scale, names: Sequence[tuple[Spot, str, str]]) -> list[str]:
    """Each to the right of its spot, further down where it would cover another."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for spot, name, kind in sorted(names, key=lambda one: -one[0].quality):
        x, y = scale.x(spot.cost) + 7, scale.y(spot.quality) + 4
        while any(abs(y - other_y) < 11 and abs(x - other_x) < 62 for other_x, other_y in taken):
            y += 2
        taken.append((x, y))
        parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(name)}</text>')
    return parts
