"""The settings of the sample logs: how large and how dirty they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from xmcspark.config.setting import check_settings, setting


@dataclass(frozen=True)
class SampleSettings:
    """Generated logs of a shop that does not exist, to try everything on; see input.sample."""

    first_day: str = setting("2025-01-01", "Of the logs, as YYYY-MM-DD.")
    days: int = setting(61, "How many days.", minimum=1, maximum=10_000)
    lines_per_day: int = setting(3000, "Records of a weekday; weekends have a fifth more.", minimum=1)
    items: int = setting(2000, "Size of the catalogue.", minimum=1, maximum=1_000_000)
    queries: int = setting(12_000, "Different things people look for, before they misspell them.", minimum=1)
    misspelt: float = setting(0.06, "Share of queries that are misspelt.", minimum=0, maximum=1)
    bad_lines: float = setting(0.005, "Share of lines that no program can use.", minimum=0, maximum=1)
    seed: int = setting(0, "The same seed gives the same files.", minimum=0, maximum=2**63 - 1)

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        try:
            date.fromisoformat(self.first_day)
        except ValueError:
            return [f"first_day is {self.first_day!r}: expected a day such as 2026-01-31"]
        return []
