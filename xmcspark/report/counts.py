"""The sizes of a run that are worth a line, from the notes of its stages: the same for the run itself and for the one
it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xmcspark.report.markup import size

Notes = Mapping[str, Mapping[str, Any]]  # by stage

_COUNTS = {
    "training instances": ("corpus", "train_instances"),
    "test instances": ("corpus", "test_instances"),
    "training pairs with a label": ("corpus", "train_pairs"),
    "labels": ("corpus", "labels_active"),
    "features": ("vectorize", "features"),
    "weights": ("train", "weights"),
}


def counts_of(notes: Notes) -> dict[str, int]:
    """Those that are noted."""
    found = {"log records": sum(int(day.get("records") or 0) for day in _days(notes))}
    for name, (stage, key) in _COUNTS.items():
        found[name] = notes.get(stage, {}).get(key) or 0
    return {name: int(count) for name, count in found.items() if count}


def head_facts(notes: Notes) -> dict[str, str]:
    """For the head of the page."""
    corpus, counts = notes.get("corpus", {}), counts_of(notes)
    told = {}
    if corpus.get("first_day") and corpus.get("last_day"):
        told["Days"] = f"{corpus['first_day']} to {corpus['last_day']}"
    for name, words in (
        ("training instances", "Training instances"),
        ("labels", "Labels"),
        ("features", "Features"),
    ):
        if name in counts:
            told[words] = f"{counts[name]:,}"
    if model := notes.get("predict", {}).get("model_bytes"):
        told["Model"] = size(model + notes.get("encode", {}).get("encoder_bytes", 0))
    return told


def _days(notes: Notes) -> list[Mapping[str, Any]]:
    return list((notes.get("ingest", {}).get("days") or {}).values())
