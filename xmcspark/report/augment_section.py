"""What the augmentation added, and what a trial on held-out instances said about it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from xmcspark.report.data import ReportData
from xmcspark.report.markup import (
    Section,
    facts,
    paragraph,
    percent,
    points,
    section,
    sentence,
    signed_points,
    table,
)


def augmentation(data: ReportData) -> Section | None:
    """None if nothing was added and nothing was tried."""
    notes = data.notes("augment")
    trial: Mapping[str, Any] = notes.get("trial") or {}
    if not notes.get("rows") and not trial:
        return None
    return section(
        "augmentation",
        "Augmentation",
        paragraph(_done(notes)),
        paragraph(sentence(str(trial["why"]))) if trial.get("why") else "",
        _trial_table(trial) if trial.get("plain") and trial.get("augmented") else "",
        facts(_facts(notes)),
    )


def _done(notes: Mapping[str, Any]) -> str:
    if not notes.get("rows"):
        return "Augmentation was tried and is not used: the model is trained on what was observed."
    made = f"{notes['rows']:,} instances were made ({notes.get('variant', 'unknown variant')})"
    kept = [float(notes.get(name, 1.0)) for name in ("observed_share", "made_share")]
    if kept == [1.0, 1.0]:
        return f"{made} and added to those that were observed."
    return (
        f"{made}; training takes {percent(kept[0])} of those observed and {percent(kept[1])} of those made."
    )


def _facts(notes: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "labels_with_text": "Labels with a text",
        "soft_pairs": "Soft labels of all made instances",
        "entries": "Entries of the co-occurrence",
        "instances_that_are_labels": "Test instances that are labels",
    }
    return {words: f"{notes[name]:,}" for name, words in names.items() if name in notes}


def _trial_table(trial: Mapping[str, Any]) -> str:
    plain, with_it = trial["plain"], trial["augmented"]
    rows = [
        [escape(name), points(value), points(with_it[name]), signed_points(with_it[name] - value)]
        for name, value in plain.items()
        if name in with_it
    ]
    held = f"On {int(trial.get('instances') or 0):,} held-out instances, percent"
    return table(held, ["metric", "without", "with", "change"], rows)
