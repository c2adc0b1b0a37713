"""The report of a run that never was: every section has something to show, and every text is hostile."""

from __future__ import annotations

from math import nan
from typing import Any

from xmcspark.quality.metric_sums import MetricRow
from xmcspark.report.data import (
    Example,
    Level,
    Neighbour,
    Neighbours,
    Previous,
    Profile,
    ReportData,
    Spread,
    StageTime,
    UnitLoad,
)
from xmcspark.report.distribution import Distribution

HOSTILE = "</script></title><img src=x onerror=\"alert('1')\"> & \"quotes\" 'single' ]]>"
BINS = ("all", "q1", "q2", "q3", "q4", "q5", "head", "torso", "tail")


def sample_metrics(shift: float = 0.0) -> tuple[MetricRow, ...]:
    rows = []
    for m, metric in enumerate(("P", "R", "nDCG", "PSP", "coverage", "macro-F1")):
        for k in (1, 3, 5, 10):
            for b, name in enumerate(BINS):
                value = 0.62 - 0.05 * m - 0.02 * b + 0.004 * k + shift
                bounded = metric not in ("coverage", "macro-F1")
                ends = (value - 0.02, value + 0.02) if bounded else (nan, nan)
                rows.append(MetricRow(metric, k, name, value, *ends, 4_000 * (b + 1)))
    return tuple(rows)


def sample_profile(shift: int = 0) -> Profile:
    return Profile(
        120_000,
        9_000,
        21_000,
        Distribution((0, 9_000, 6_000 + shift, 3_000, 1_500, 900, 400, 150, 40, 10), 400_000, 480),
        Distribution((0, 40_000 + 9 * shift, 50_000, 20_000, 8_000, 2_000), 400_000, 27),
        Distribution((0, 0, 0, 4_000, 30_000, 60_000, 20_000, 6_000), 3_100_000, 120),
        17_000,
        60_000,
    )


def sample_level(level: int, outputs: int, steps: int, **changes: Any) -> dict[str, Any]:
    """A level of fine-tuning, as encode notes it."""
    noted = {
        "level": level,
        "outputs": outputs,
        "steps": steps,
        "first_loss": 0.75,
        "loss": 0.125,
        "validation": 0.5 + 0.1 * level,
        "kept_step": steps,
        "evaluations": [[steps, 0.5]],
        "seconds": 1_850.2,
        "resumed_at": None,
    }
    return noted | changes


def sample_stages() -> tuple[StageTime, ...]:
    notes: dict[str, dict[str, Any]] = {
        "ingest": {"days": {"2026-01-01": {"records": 90_000, "quarantined": 12}}, "read": 1},
        "corpus": {
            "first_day": "2026-01-01",
            "last_day": "2026-02-28",
            "train_instances": 120_000,
            "test_instances": 9_000,
            "train_pairs": 400_000,
            "labels_active": 21_000,
            "labels_new": 320,
            "labels_retired": 41,
            "train_texts_cut": 3,
        },
        "augment": {
            "rows": 20_100,
            "variant": "gandalf",
            "observed_share": 1.0,
            "made_share": 1.0,
            "entries": 300_000,
            "labels_with_text": 20_100,
            "neighbours_cut": 4_000,
            "trial": {
                "instances": 2_000,
                "plain": {"P@1": 0.4, "PSP@5": 0.3},
                "augmented": {"P@1": 0.42, "PSP@5": 0.34},
                "use": True,
                "why": f"P@1 is better: {HOSTILE}",
            },
        },
        "vectorize": {"features": 310_000, "rows_without_features": 17},
        "encode": {
            "width": 384,
            "rows": 149_100,
            "device": f"cpu, {HOSTILE}",
            "fine_tuning_seconds": 3_700.4,
            "levels": [sample_level(0, 128, 1_000), sample_level(1, 21_000, 2_000)],
        },
        "index": {"pifa_pairs_cut": 0},
        "train": {"tasks": 20, "waves": 2, "weights": 9_000_000, "unfinished_matchers": 4},
        "predict": {"model_bytes": 90_000_000},
        "evaluate": {"test": {"instances": 9_000, "unpredicted": 0, "excluded": 5}},
        "publish": {"published": 7},
    }
    return tuple(
        StageTime(stage, 2.5 * place + 0.4, stage == "ingest", {f"table_{stage}": 1_000}, noted, 5_000_000, 4)
        for place, (stage, noted) in enumerate(notes.items())
    )


def sample_units() -> tuple[UnitLoad, ...]:
    return tuple(
        UnitLoad(
            member=0,
            sub_tree=n,
            node=n,
            nodes=1 if n == 0 else 30,
            matchers=60,
            wave=n % 2,
            rows=1_000 * n + 100,
            nnz=30_000 * n + 1_000,
            predicted_load=1e9 * (n + 1) ** 1.3,
            seconds=0.8 * (n + 1) ** 1.3 * (1.0 + 0.3 * (-1) ** n),
        )
        for n in range(24)
    )


def sample_report(**changes: Any) -> ReportData:
    """`changes` are fields of the report."""
    levels = (
        Level(0, 0, 1, Spread(40, 40, 40), Spread(21_000, 21_000, 21_000), Spread(120_000, 120_000, 120_000)),
        Level(0, 1, 40, Spread(8, 9, 9), Spread(520, 525, 530), Spread(2_000, 4_100, 31_000)),
        Level(0, 2, 350, Spread(58, 60, 61), Spread(58, 60, 61), Spread(90, 700, 22_000)),
    )
    values: dict[str, Any] = {
        "run": f"2026-02-28-{HOSTILE}",
        "method": "xr-linear",
        "made_at": "2026-03-01 04:05",
        "seconds": 127.0,
        "base": "2026-02-27-aa",
        "publication": 7,
        "facts": {"Days": "2026-01-01 to 2026-02-28", "Labels": "21,000"},
        "metrics": sample_metrics(),
        "stages": sample_stages(),
        "levels": levels,
        "units": sample_units(),
        "profile": sample_profile(),
        "counts": {"training instances": 120_000, "labels": 21_000},
        "previous": Previous(
            HOSTILE, "2026-02-28T03:00:00", sample_metrics(-0.05), {"labels": 20_721}, sample_profile(500)
        ),
        "examples": (
            Example(
                "red running shoes for a wide foot",
                [("Trail shoe, red", 0.91, True), ("Sock", 0.2, False)],
                3,
            ),
            Example(HOSTILE, [(HOSTILE, 0.5, True), ("w" * 400, 0.4, False)], 1),
        ),
        "neighbours": (
            Neighbours("Trail shoe, red", 120, 41, [Neighbour("Sock", 60, 0.5), Neighbour(HOSTILE, 12, 0.1)]),
        ),
    }
    return ReportData(**(values | changes))
