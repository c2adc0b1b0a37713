"""How the text encoder was fine-tuned: on which device, on what at each level, and what became of the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xmcspark.report.charts import Bar, bars
from xmcspark.report.data import ReportData
from xmcspark.report.markup import (
    NOTHING,
    Section,
    counted,
    duration,
    facts,
    figure,
    grid,
    paragraph,
    section,
    table,
)


def fine_tuning(data: ReportData) -> Section | None:
    """None for a run without an encoder, or without levels: UniDEC's is told with the vectors of labels."""
    notes = data.notes("encode")
    if not notes.get("width") or notes.get("tasks"):
        return None
    levels: Sequence[Mapping[str, Any]] = notes.get("levels") or []
    body = [paragraph(_done(levels)), facts(_facts(notes, levels))]
    if levels:
        body.append(grid([_chart(levels), _table(levels)]))
    return section("fine-tuning", "Fine-tuning of the encoder", *body)


def _done(levels: Sequence[Mapping[str, Any]]) -> str:
    if not levels:
        return "The encoder was taken as it is, and all texts were embedded with it."
    steps = sum(int(level["steps"]) for level in levels)
    said = (
        f"The encoder was fine-tuned in {counted(steps, 'step')} on {counted(len(levels), 'level')} of outputs; then "
        "all texts were embedded with it."
    )
    taken_over = [level for level in levels if level.get("resumed_at") is not None]
    if taken_over:
        said += (
            f" {counted(len(taken_over), 'level')} went on from a checkpoint: times are of the last attempt."
        )
    return said


def _facts(notes: Mapping[str, Any], levels: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    told = {"Embedding": f"{notes['width']:,} numbers", "Instances embedded": f"{notes.get('rows', 0):,}"}
    told |= encoder_facts(notes)
    if levels:
        told["Fine-tuning"] = duration(_seconds(notes, levels))
    return told


def encoder_facts(notes: Mapping[str, Any]) -> dict[str, str]:
    """What was started from, and where it was trained, as far as the stage said."""
    told = {"Encoder": notes.get("encoder"), "Device": notes.get("device")}
    return {name: str(value) for name, value in told.items() if value}


def _seconds(notes: Mapping[str, Any], levels: Sequence[Mapping[str, Any]]) -> float:
    return float(notes.get("fine_tuning_seconds") or sum(float(level["seconds"]) for level in levels))


def _chart(levels: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        Bar(
            f"level {place}, {counted(int(level['outputs']), 'output')}",
            float(level["seconds"]),
            duration(float(level["seconds"])),
        )
        for place, level in enumerate(levels, start=1)
    ]
    return figure(
        "Seconds of each level",
        "Levels are fine-tuned one after the other, few outputs first",
        bars("Seconds of fine-tuning by level", rows),
    )


def _table(levels: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for place, level in enumerate(levels, start=1):
        kept = int(level["kept_step"])
        validation = _number(level["validation"])
        if level["validation"] is not None and kept != level["steps"]:
            validation += f" (step {kept:,})"
        rows.append(
            [
                f"{place}",
                f"{level['outputs']:,}",
                f"{level['steps']:,}",
                _number(level.get("first_loss")),
                _number(level["loss"]),
                validation,
                duration(float(level["seconds"])),
            ]
        )
    head = [
        "level",
        "outputs",
        "steps",
        "loss at start",
        "loss at end",
        "validation",
        "time, of all attempts",
    ]
    return table(
        "Each level: mean loss over its first and last steps, validation of what was kept", head, rows
    )


def _number(value: Any) -> str:
    return NOTHING if value is None else f"{float(value):.4f}"
