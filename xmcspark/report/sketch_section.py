"""What the sketch of MACH is made of: how labels were hashed, whether that tells them apart, what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xmcspark.report.data import ReportData
from xmcspark.report.markup import Section, facts, paragraph, section, sentence, size


def sketch(data: ReportData) -> Section | None:
    """None for a run without one."""
    notes = data.notes("train")
    if "mach" not in notes:
        return None
    said = [paragraph(sentence(str(text))) for text in notes.get("mach_advice", [])]
    return section("sketch", "The sketch", *said, facts(_facts(notes)))


def _facts(notes: Mapping[str, Any]) -> dict[str, str]:
    shape = notes["mach"]
    labels, buckets, repetitions = notes["mach_labels"], shape["buckets"], shape["repetitions"]
    return {
        "Labels": f"{labels:,}",
        "Buckets": f"{buckets:,}",
        "Labels in a bucket": f"{labels / buckets:,.1f}",
        "Repetitions": f"{repetitions:,}",
        "Trained, taken over": f"{notes['repetitions_trained']:,}, {notes['repetitions_reused']:,}",
        "Weights": f"{notes['mach_weights']:,}",
        "Size": size(notes["mach_bytes"]),
        "CPU seconds": f"{notes['mach_cpu_seconds']:,.1f}",
    }
