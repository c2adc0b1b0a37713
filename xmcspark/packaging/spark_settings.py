"""Reads the files of Spark settings in conf/, which spark-submit takes by --properties-file, so that what EMR is given
as JSON is the same."""

from __future__ import annotations

from pathlib import Path


def read_settings(path: Path) -> dict[str, str]:
    """Key and value of each line that is not a comment, in order. ValueError names a line that is neither."""
    settings: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(" ")
        if not key.startswith("spark.") or not value.strip() or key in settings:
            raise ValueError(f"{path.name}, line {number}: expected one `spark.key value`, found {line!r}")
        settings[key] = value.strip()
    return settings
