"""The settings of publishing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from xmcspark.config.reading import section
from xmcspark.config.setting import Rule, check_settings, setting


def _is_database(value: Any) -> bool:
    return value is None or re.fullmatch(r"[A-Za-z0-9_]+", str(value)) is not None


@dataclass(frozen=True)
class RequireSettings:
    """Gates: what a model must hold to be published. A refused run stays as it is, the old model is served on."""

    max_precision_drop: float | None = setting(
        0.02, "P@1 may be this much below that of the run served now; null: no matter.", minimum=0, maximum=1
    )
    min_precision: float | None = setting(
        None, "P@1 must be at least this; null: no matter.", minimum=0, maximum=1
    )
    max_label_drop: float | None = setting(
        0.1, "The share of labels lost against the run served now; null: no matter.", minimum=0, maximum=1
    )

    no_older_day: bool = setting(
        True, "The run must not be of an earlier day than the one served now, as a back-fill is."
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class PublishSettings:
    """Whether a run becomes the one that is served."""

    enabled: bool = setting(
        True,
        "Whether a refresh that holds the gates below is served at once. false, for experiments: it stops before that.",
    )
    database: str | None = setting(
        None,
        "Hive or Glue database whose tables become those of the published run; null: none. Needs a session with "
        "spark.sql.catalogImplementation=hive.",
        rule=Rule(_is_database, "a name of letters, digits and _"),
    )
    require: RequireSettings = section(RequireSettings)

    def __post_init__(self) -> None:
        check_settings(self)
