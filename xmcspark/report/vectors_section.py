"""What UniDEC learned and what is searched: its tasks with their pools of labels, and the vectors of labels."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from xmcspark.report.data import ReportData
from xmcspark.report.fine_tuning_section import encoder_facts
from xmcspark.report.markup import NOTHING, Section, duration, facts, paragraph, percent, section, size, table

_OF_POOLS = (("labels", ",.0f"), ("positives", ".1f"))  # what is shown of the pools of each head


def label_vectors(data: ReportData) -> Section | None:
    """None for a run without them."""
    searched = data.notes("train").get("unidec")
    if searched is None:
        return None
    return section(
        "vectors",
        "Vectors of labels",
        paragraph(
            "Texts and labels are vectors, and the labels nearest to a text are its predictions: by the dual head, "
            "which compares with label texts, by the classifier, which has a vector of each label, or by the sum of "
            "both. They are trained on pools of labels, one a step for each head."
        ),
        facts(_facts(searched) | encoder_facts(data.notes("encode"))),
        table(
            "What was trained, on pools of labels",
            [
                "task",
                "steps",
                "time, of all attempts",
                "loss",
                "labels of a pool",
                "positives in it",
                "P@1 held out",
            ],
            [_task(task) for task in data.notes("encode").get("tasks", ())],
        ),
    )


def _facts(searched: Mapping[str, Any]) -> dict[str, str]:
    told = {
        "Labels": f"{searched['labels']:,}",
        "Values of a vector": f"{searched['width']:,}",
        "Heads": " and ".join(searched["heads"]),
        "Search": str(searched["search"]),
        "Size": size(searched["bytes"]),
    }
    if "recall" in searched:
        told["Of the 10 nearest, found"] = percent(searched["recall"])
    return told


def _task(task: Mapping[str, Any]) -> list[str]:
    pools, loss, held_out = task["pools"], task["loss"], task["validation"]
    return [
        escape(str(task["task"])),
        f"{task['steps']:,}",
        duration(task["seconds"]),
        NOTHING if loss is None else f"{loss:.3f}",
        *(_of_pools(pools, what, how) for what, how in _OF_POOLS),
        NOTHING if held_out is None else percent(held_out),
    ]


def _of_pools(pools: Mapping[str, Mapping[str, float]], what: str, how: str) -> str:
    """Of each head, named where there are two."""
    found = {head: f"{pool[what]:{how}}" for head, pool in pools.items()}
    if len(found) > 1:
        return " / ".join(f"{head} {number}" for head, number in found.items())
    return next(iter(found.values()), NOTHING)
