"""The gates of publishing: what is wrong with a new model, judged by its facts and those of the one served now."""

from __future__ import annotations

from typing import Any

from xmcspark.store.publish_settings import RequireSettings


def gate_problems(require: RequireSettings, new: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
    """Why the new model must not be published; empty if it may. Facts: `precision` (P@1 of the test split, None
    without one), `labels` (how many the model knows) and `date` (the day it is for, None without one)."""
    problems = []
    precision = new.get("precision")
    if require.min_precision is not None:
        if precision is None:
            problems.append(
                "publish.require.min_precision is set, but the run has no test split to measure P@1 on"
            )
        elif precision < require.min_precision:
            problems.append(
                f"P@1 is {precision:.4f}, below publish.require.min_precision={require.min_precision}"
            )
    if old is None:
        return problems
    day, served = new.get("date"), old.get("date")
    if require.no_older_day and day and served and day < served:
        problems.append(
            f"the run is of {day} and the one served now of {served} (publish.require.no_older_day): a back-fill is "
            "made with publish.enabled=false"
        )
    before = old.get("precision")
    if require.max_precision_drop is not None and before is not None and precision is None:
        problems.append(
            "P@1 was not measured, so publish.require.max_precision_drop cannot be judged: evaluate.ks needs 1, "
            "evaluate.splits test, and the run a test split"
        )
    if require.max_precision_drop is not None and precision is not None and before is not None:
        drop = before - precision
        if drop > require.max_precision_drop:
            problems.append(
                f"P@1 fell from {before:.4f} to {precision:.4f}, more than "
                f"publish.require.max_precision_drop={require.max_precision_drop} allows"
            )
    if require.max_label_drop is not None and old.get("labels"):
        lost = 1 - new["labels"] / old["labels"]
        if lost > require.max_label_drop:
            problems.append(
                f"the labels fell from {old['labels']:,} to {new['labels']:,} ({lost:.1%}), more than "
                f"publish.require.max_label_drop={require.max_label_drop} allows"
            )
    return problems
