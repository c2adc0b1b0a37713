"""The settings of evaluation: which instances are predicted and evaluated, at which k, and how rare labels weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xmcspark.config.setting import Rule, check_settings, setting
from xmcspark.quality.bootstrap import LEAST_REPLICATES, REPLICATES
from xmcspark.quality.propensity import PROPENSITY_PRESETS

_SPLITS = ("train", "test")
_MOST = (1 << 15) - 1


def _distinct(value: Any, good: Any) -> bool:
    """Whether a value is a list of distinct good items, at least one."""
    if not isinstance(value, (tuple, list)) or not value:
        return False
    return all(map(good, value)) and len(set(value)) == len(value)


def _is_k(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST


@dataclass(frozen=True)
class EvaluateSettings:
    """P, R, nDCG, PSP and others at each k, over all labels and by label frequency."""

    splits: tuple[str, ...] = setting(
        ("test",),
        "Which instances are predicted and evaluated: test, train or both.",
        rule=Rule(lambda value: _distinct(value, _SPLITS.__contains__), "a list of test, train or both"),
    )
    ks: tuple[int, ...] = setting(
        (1, 3, 5, 10),
        "Predictions counted per instance, for each metric.",
        rule=Rule(
            lambda value: _distinct(value, _is_k), f"a list of distinct whole numbers from 1 to {_MOST}"
        ),
    )
    propensity: str = setting(
        "default",
        "How much more rare labels weigh in PSP: A and B of the propensity model, as published for a dataset.",
        source="Jain et al. 2016; XMC repository",
        choices=tuple(PROPENSITY_PRESETS),
    )
    propensity_a: float | None = setting(None, "A in place of the preset's; null takes that.", minimum=0)
    propensity_b: float | None = setting(None, "B in place of the preset's; null takes that.", above=0)

    bootstrap: int = setting(
        REPLICATES,
        "Resamples of the instances that 95% intervals are made of; 0 takes the normal approximation.",
        rule=Rule(
            lambda value: type(value) is int and (value == 0 or value >= LEAST_REPLICATES),
            f"0, or {LEAST_REPLICATES} and more",
        ),
    )
    errors: bool = setting(True, "Write the tables instance_errors and label_errors, for SQL.")

    def __post_init__(self) -> None:
        check_settings(self)
