"""What the run did: its stages, its tree, how training was dealt out, what was left out."""

from __future__ import annotations

from html import escape

from xmcspark.report.charts import Bar, Point, Range, bars, ranges, scatter
from xmcspark.report.data import Level, ReportData, Spread, StageTime
from xmcspark.report.findings import Finding, findings
from xmcspark.report.markup import (
    NOTHING,
    Section,
    classed,
    duration,
    facts,
    figure,
    grid,
    paragraph,
    percent,
    section,
    sentence,
    size,
    table,
)
from xmcspark.report.training_load import LoadShare, TrainingLoad, training_load

_MOST_POINTS = 400
_SMALLEST_SHARE = 1e-6  # of the scatter: units below it would stretch its axes


def stage_times(data: ReportData) -> Section | None:
    if not data.stages:
        return None
    return section(
        "time",
        "Where the time went",
        grid([_stage_chart(data), _stage_table(data.stages)]),
    )


def _stage_chart(data: ReportData) -> str:
    """One bar after the other, as they ran."""
    spent = sum(stage.seconds for stage in data.stages if not stage.skipped)
    whole = max(spent, data.seconds) or 1.0
    rows, start = [], 0.0
    for stage in data.stages:
        if stage.skipped:
            rows.append(Bar(stage.stage, 0.0, f"taken over; took {duration(stage.seconds)}", soft=True))
            continue
        share = f"{duration(stage.seconds)}, {percent(stage.seconds / whole, 0)}"
        rows.append(Bar(stage.stage, stage.seconds, share, start=start))
        start += stage.seconds
    rest = whole - spent
    if rest >= 0.05:
        rows.append(
            Bar(
                "around the stages",
                rest,
                f"{duration(rest)}, {percent(rest / whole, 0)}",
                start=start,
                soft=True,
            )
        )
    title = f"{duration(whole)} in all"
    return figure(title, "Stages run one after the other", bars("Seconds of each stage", rows, top=whole))


def _stage_table(stages: tuple[StageTime, ...]) -> str:
    rows = []
    for stage in stages:
        written = ", ".join(f"{escape(name)} {count:,}" for name, count in stage.rows.items())
        shuffled = NOTHING if stage.shuffle_bytes is None else size(stage.shuffle_bytes)
        rows.append([escape(stage.stage), written or NOTHING, shuffled])
    return table("What each stage wrote (rows) and shuffled", ["stage", "tables", "shuffle"], rows, [1])


def tree_shape(data: ReportData) -> Section | None:
    if not data.levels:
        return None
    members = sorted({level.member for level in data.levels})
    first = [level for level in data.levels if level.member == members[0]]
    leaves = first[-1]
    trees = f" The first of {len(members)} trees; the others have the same shape." if len(members) > 1 else ""
    charts = [
        figure(
            "Labels below a node",
            "Smallest to largest on a logarithmic axis, the dot is the median",
            ranges("Labels below the nodes of each level", [_range(level, level.labels) for level in first]),
        ),
        figure(
            "Training instances of a node",
            "Those with a label below it; uneven where some labels are much more frequent",
            ranges(
                "Training instances of the nodes of each level",
                [_range(level, level.rows) for level in first],
            ),
        ),
    ]
    return section(
        "tree",
        "Label tree",
        paragraph(
            f"{len(first)} levels of clusters over {first[0].labels.high:,} labels; a leaf cluster has "
            f"{_spread(leaves.children)} labels (smallest, median, largest).{trees}"
        ),
        grid(charts),
        table(
            "Levels: number of nodes, and smallest / median / largest of a node",
            ["level", "nodes", "children", "labels below", "training instances"],
            [
                [
                    _level_name(level, first),
                    f"{level.nodes:,}",
                    *map(_spread, (level.children, level.labels, level.rows)),
                ]
                for level in first
            ],
        ),
    )


def _range(level: Level, of: Spread) -> Range:
    said = f"{of.low:,} to {of.high:,}, median {of.median:,}" if level.nodes > 1 else f"{of.median:,}"
    nodes = "root" if level.level == 0 else f"level {level.level}, {level.nodes:,} nodes"
    return Range(nodes, float(of.low), float(of.median), float(of.high), said)


def _level_name(level: Level, levels: list[Level]) -> str:
    kind = " (leaves)" if level is levels[-1] else " (root)" if level.level == 0 else ""
    return f"{level.level}{kind}"


def _spread(of: Spread) -> str:
    return f"{of.low:,}" if of.low == of.high else f"{of.low:,} / {of.median:,} / {of.high:,}"


def training_balance(data: ReportData) -> Section | None:
    load = training_load(data.units, data.slots("train"))
    if load is None:
        return None
    notes = data.notes("train")
    told = {
        "Units": f"{len(load.shares):,}",
        "Tasks in waves": f"{notes.get('tasks', len(load.shares)):,} in {notes.get('waves', 1):,}",
        "Slots": f"{load.slots:,}",
        "Busiest slot, planned": f"{load.planned_balance:.2f} × the mean",
        "Busiest slot, measured": f"{load.measured_balance:.2f} × the mean",
        "CPU seconds": f"{load.seconds:,.1f}",
    }
    if peak := notes.get("largest_peak_bytes"):
        told["Largest task's memory"] = size(peak)
    return section(
        "load",
        "Training load against the plan",
        paragraph(
            "Training is cut into units (sub-trees, single nodes above them, repetitions of a sketch), dealt to tasks "
            "heaviest first (LPT) by an estimate of their work. Half of the units were estimated within a factor of "
            f"{load.typical_error:.2f}."
        ),
        facts(told),
        grid([_load_chart(load), _load_table(load)]),
    )


def _load_chart(load: TrainingLoad) -> str:
    kept = [share for share in load.shares if min(share.planned, share.measured) >= _SMALLEST_SHARE][
        :_MOST_POINTS
    ]
    if len(kept) < 2:
        return ""
    dots = [
        Point(
            share.planned,
            share.measured,
            f"unit {share.unit.sub_tree}: planned {percent(share.planned, 2)}, measured {percent(share.measured, 2)}",
        )
        for share in kept
    ]
    over = sum(share.measured > share.planned for share in kept)
    said = (
        f"{len(kept)} units; {over} of them took a larger share of the time than planned. "
        f"Half of all units are within a factor of {load.typical_error:.2f}."
    )
    return figure(
        "Planned and measured shares of training",
        "A dot is a unit; on the dashed line both are equal, above it the unit took longer than expected",
        scatter(
            "Measured against planned share of each training unit",
            said,
            dots,
            "planned share",
            "measured share",
        ),
    )


def _load_table(load: TrainingLoad) -> str:
    return table(
        "The most expensive units",
        ["unit", "nodes", "rows", "planned", "measured", "CPU s"],
        [_load_row(share) for share in load.shares[:8]],
    )


def _load_row(share: LoadShare) -> list[str]:
    unit = share.unit
    return [
        f"{unit.sub_tree} (node {unit.node})",
        f"{unit.nodes:,}",
        f"{unit.rows:,}",
        percent(share.planned),
        percent(share.measured),
        f"{unit.seconds:.2f}",
    ]


def left_out(data: ReportData) -> Section:
    found = findings({stage.stage: stage.notes for stage in data.stages})
    if not found:
        body = paragraph("Nothing was cut, and no stage had anything to warn of.")
    else:
        items = "".join(_finding(one) for one in found)
        body = f'<ul class="findings">{items}</ul>'
    return section("warnings", "Warnings, and what was cut", body)


def _finding(one: Finding) -> str:
    said = '<span class="hidden">Warning: </span>' if one.warning else ""
    stage = f'<span class="muted small">{escape(one.stage)}</span>'
    return f"<li{classed('warning' if one.warning else '')}>{said}{escape(sentence(one.text))} {stage}</li>"
