"""The settings that belong to a run rather than to one algorithm: where it reads and writes, and how many trees
it trains."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xmcspark.config.setting import check_settings, setting


@dataclass(frozen=True)
class RunSettings:
    """Where a run lives: <root>/<id>/tables, manifest.json, summary.json, report.html."""

    root: str = setting("runs", "Folder or URI (s3://, hdfs://) under which all runs live.")
    id: str | None = setting(None, "Name of the run's folder under root; null lets the job choose it.")
    base: str | None = setting(None, "Id of the run to start from; null is the one published last.")

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
        if self.test is not None and self.train is None:
            return ["test is given without input.train: there is nothing to train on"]
        return []


@dataclass(frozen=True)
class EnsembleSettings:
    """Several trees, trained independently, whose predictions are fused."""

    members: int = setting(1, "How many trees, each from its own seed.", minimum=1)
    fusion: str = setting(
        "average",
        "How predictions are fused: by mean score, by 1 / (60 + rank), or by scores normalised per instance.",
        choices=("average", "rank", "normalised"),
    )

    def __post_init__(self) -> None:
        check_settings(self)
