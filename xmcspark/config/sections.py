"""The settings that belong to a run rather than to one algorithm: where it reads and writes, and how many trees
it trains."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from xmcspark.config.setting import Rule, check_settings, setting


def _is_day(value: Any) -> bool:
    try:
        return value is None or (len(value) == 10 and bool(date.fromisoformat(value)))
    except (TypeError, ValueError):
        return False


_DAY = Rule(_is_day, "a day such as 2026-01-31")


@dataclass(frozen=True)
class RunSettings:
    """Where a run lives: <root>/<id>/tables, manifest.json, summary.json, report.html."""

    root: str = setting("runs", "Folder or URI (s3://, hdfs://) under which all runs live.")
    id: str | None = setting(None, "Name of the run's folder under root; null lets the job choose it.")
    base: str | None = setting(None, "Id of the run to start from; null is the one published last.")
    date: str | None = setting(
        None, "Last day of the logs to use, as YYYY-MM-DD (--date); null is the latest there is.", rule=_DAY
    )
    keep: int = setting(
        3, "Published runs that prune keeps, the newest: what can be rolled back to.", minimum=1
    )
    keep_days: float = setting(7.0, "Days for which prune keeps runs that were not published.", minimum=0)

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        problems = [] if self.root else ["root is empty: give a folder or URI"]
        for name, value in (("id", self.id), ("base", self.base)):
            if value is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=-]*", value):
                problems.append(
                    f"{name} is {value!r}: a run id is the name of a folder; use letters, digits, '.', '_', '=', "
                    "'-', a letter or digit first"
                )
        if self.id is not None and self.id == self.base:
            problems.append(f"id and base are both {self.id!r}: a run cannot start from itself")
        return problems


@dataclass(frozen=True)
class InputSettings:
    """What a run learns from: dated logs, or a corpus that is ready."""

    logs: str | None = setting(None, "Folder or URI of dated raw logs; give this, or train and labels.")
    sample: bool = setting(
        False,
        "Write sample logs (section sample) to input.logs first; never over logs that are not a sample.",
    )
    train: str | None = setting(
        None,
        "Parquet (id, text, labels[, relevance]) or text in the XMC repository's format: what to train on.",
    )
    test: str | None = setting(None, "The same for evaluation; null evaluates nothing.")
    labels: str | None = setting(
        None, "Parquet (id, text) or text in the XMC repository's format: the labels."
    )
    exclude: str | None = setting(
        None, "Parquet (id, labels): labels never to be predicted for an instance, such as itself."
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        given = [name for name in ("train", "test", "labels") if getattr(self, name) is not None]
        if self.logs is not None and given:
            return [
                f"logs and input.{given[0]} are both given: a run learns from logs or from a ready corpus"
            ]
        if self.sample and self.logs is None:
            return ["sample is true without input.logs: name the folder that the sample logs go to"]
        if self.test is not None and self.train is None:
            return ["test is given without input.train: there is nothing to train on"]
        return []


@dataclass(frozen=True)
class EnsembleSettings:
    """Several trees, and a sketch (section mach) or a dual encoder (section unidec), whose predictions are fused."""

    members: int = setting(
        1,
        "How many trees, each from its own seed; 0 with methods mach and unidec, where a tree may stand beside.",
        minimum=0,
    )
    fusion: str = setting(
        "average",
        "How predictions are fused: by mean score, by 1 / (60 + rank), or by scores normalised per instance.",
        choices=("average", "rank", "normalised"),
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class RefreshSettings:
    """What a run takes over from its base run. Labels keep their ids in either case."""

    mode: str = setting(
        "full",
        "full learns vocabulary and tree anew, a new generation; append keeps the base's feature ids and idf and adds "
        "new ones.",
        choices=("full", "append"),
    )
    examples: int = setting(
        0, "Test instances printed at the end with their predictions, text and all.", minimum=0, maximum=100
    )

    def __post_init__(self) -> None:
        check_settings(self)
