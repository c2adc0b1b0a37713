"""The settings of publishing."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.config.reading import section
from xmcspark.config.setting import check_settings, setting


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

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class PublishSettings:
    """Whether a run becomes the one that is served."""

    enabled: bool = setting(True, "false: refresh stops before publishing.")
    require: RequireSettings = section(RequireSettings)

    def __post_init__(self) -> None:
        check_settings(self)
