"""The settings of label features."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.config.setting import check_settings, setting


@dataclass(frozen=True)
class PifaSettings:
    """Label features from the labels' positive instances (paper 1, eq. 1), and what bounds their cost."""

    max_instances: int | None = setting(
        100_000,
        "Instances per label that count: of a label with more, about so many, chosen by hash; null for all.",
        minimum=1,
    )
    max_features: int | None = setting(
        None, "Features kept per label, those with the largest weights; null for all.", minimum=1
    )

    def __post_init__(self) -> None:
        check_settings(self)
