"""The settings of ingest: how raw logs are laid out, which of their columns mean what, and how much of them may be
unusable."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.config.reading import section
from xmcspark.config.setting import check_settings, setting

FORMATS = ("auto", "json", "csv", "parquet")
COUNTS = ("impressions", "clicks", "purchases")


@dataclass(frozen=True)
class ColumnSettings:
    """What the columns of the logs are called."""

    query: str = setting("query", "What was typed.")
    label_key: str = setting("label_key", "The item.")
    label_text: str | None = setting("label_text", "The item's text; null or not there: items have no text.")
    impressions: str | None = setting("impressions", "Times shown; null or not there: 0.")
    clicks: str | None = setting("clicks", "Times clicked; null or not there: 0, or see click_per_record.")
    purchases: str | None = setting("purchases", "Times bought; null or not there: 0.")
    dt: str | None = setting(
        None,
        "The day, as text that starts with YYYY-MM-DD or as a date; needed where paths have no date, else it must "
        "agree with the path.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        return [
            f"{name} is empty: name the column of the logs" for name in self.given() if not self.given()[name]
        ]

    def given(self) -> dict[str, str]:
        """Our name and the logs' name of each column that is mapped."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class IngestSettings:
    """How raw logs become the interactions that all runs of a root with the same logs share."""

    layout: str = setting(
        "auto",
        "Where paths below input.logs have their date: auto finds dt=2026-01-31, 2026/01/31, 2026-01-31.json.gz and "
        "the like; a pattern such as shop=*/YYYY/MM/DD says it; undated streams new files and reads the date in "
        "columns.dt.",
    )
    format: str = setting(
        "auto", "Of the files: json is one JSON object a line; auto goes by their names.", choices=FORMATS
    )
    delimiter: str = setting(",", "Between the columns of CSV files.")
    columns: ColumnSettings = section(ColumnSettings)
    click_per_record: bool = setting(False, "A record without clicks counts as one click.")
    max_query_chars: int = setting(1000, "Records with a longer query are quarantined.", minimum=1)
    max_label_chars: int = setting(2000, "Longer texts of items are cut to this.", minimum=1)
    max_bad_ratio: float = setting(
        0.05,
        "The job fails, and the day stays as it was, above this share of quarantined records.",
        minimum=0,
        maximum=1,
    )
    empty_day: str = setting(
        "error",
        "What to do with a day of the window that has no records, or no longer any: fail, or go on without them.",
        choices=("error", "skip"),
    )
    checkpoint: str | None = setting(
        None,
        "Undated logs: folder for the stream's progress, on a filesystem with atomic rename (hdfs://, local; for s3:// "
        "see docs); null is in run.root.",
    )
    files_per_batch: int = setting(
        0, "Undated logs: most files a batch; 0 = all new ones at once.", minimum=0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        problems = []
        if self.layout == "undated" and self.columns.dt is None:
            problems.append(
                "layout is undated but ingest.columns.dt is null: name the column that holds the day"
            )
        tokens = [self.layout.count(token) for token in ("YYYY", "MM", "DD")]
        if self.layout not in ("auto", "undated") and tokens != [1, 1, 1]:
            problems.append(
                f"layout is {self.layout!r}: expected auto, undated, or a pattern with YYYY, MM and DD once each, such "
                "as dt=YYYY-MM-DD"
            )
        if len(self.delimiter) != 1:
            problems.append(f"delimiter is {self.delimiter!r}: expected one character")
        return problems

    def content_keys(self) -> dict[str, object]:
        """The settings that decide what is written for a day: a change reads the logs anew."""
        limits = ("max_bad_ratio", "empty_day", "checkpoint", "files_per_batch", "columns")
        kept = {name: value for name, value in vars(self).items() if name not in limits}
        return {**kept, "columns": vars(self.columns)}
