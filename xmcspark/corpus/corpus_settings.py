"""The settings that decide what is learned from: which days of the logs, what counts as a good match, and what is
too rare, too long or too much to keep."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.config.setting import check_settings, setting

QUERY_KEYS = ("lower", "exact")


@dataclass(frozen=True)
class CorpusSettings:
    """How instances and labels are made of logs or of a ready corpus."""

    window_days: int = setting(60, "Logs: days learned from and evaluated on, up to run.date.", minimum=1)
    test_days: int = setting(
        7, "Logs: the last days of the window, kept for evaluation; 0 evaluates nothing.", minimum=0
    )
    query_key: str = setting(
        "lower",
        "Logs: which queries are the same instance: lower, those alike but for case and spaces; exact, identical ones.",
        choices=QUERY_KEYS,
    )
    relevance: str = setting(
        "clicks + 5 * purchases",
        "Logs: SQL over clicks, purchases, impressions and age (days before the window's last) of a query and an item "
        "on one day; days are added up, and a sum that is not above 0 is no match.",
    )
    min_query_count: int = setting(
        0, "Logs: training queries with fewer clicks and purchases than this are left out.", minimum=0
    )
    min_label_count: int = setting(
        1, "Labels with fewer training instances than this are not trained.", minimum=1
    )
    max_labels_per_instance: int = setting(
        1000, "Most labels kept of a training instance, the most relevant; 0 = no limit.", minimum=0
    )
    max_text_chars: int = setting(10_000, "Longer texts are cut to this many characters.", minimum=1)

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if self.test_days >= self.window_days:
            return [
                f"test_days is {self.test_days} but corpus.window_days is {self.window_days}: no day is left to train "
                "on; raise window_days"
            ]
        return []
