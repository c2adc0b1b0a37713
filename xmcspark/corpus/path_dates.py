"""Where the path of a log file has its date. Decides which layouts are understood without being told."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

# Year, month and day divided alike (2026-01-31, 2026/01/31, 20260131), with no digit before or after; or Hive's way.
_AUTO = (
    re.compile(r"(?:^|/)year=(?P<y>\d{4})/month=(?P<m>\d{1,2})/day=(?P<d>\d{1,2})(?=/|$)"),
    re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<s>[-/_.]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)(?!\d)"),
)
_TOKENS = {"YYYY": r"(?P<y>\d{4})", "MM": r"(?P<m>\d\d)", "DD": r"(?P<d>\d\d)", "*": "[^/]*"}


def date_finder(layout: str) -> Callable[[str], date | None]:
    """A function that finds the date in a path relative to the logs' folder; None if it has none (yet: a folder
    deeper down may). `layout` is auto or a pattern, which the path must start with."""
    if layout == "auto":
        return _auto_date
    parts = re.split(r"(YYYY|MM|DD|\*)", layout.strip("/"))
    pattern = re.compile("".join(_TOKENS.get(part, re.escape(part)) for part in parts))

    def find(path: str) -> date | None:
        match = pattern.match(path)
        return _date_of(match) if match else None

    return find


def _auto_date(path: str) -> date | None:
    for pattern in _AUTO:
        for match in pattern.finditer(path):
            if found := _date_of(match):
                return found
    return None


def _date_of(match: re.Match[str]) -> date | None:
    try:
        return date(int(match["y"]), int(match["m"]), int(match["d"]))
    except ValueError:  # no such day
        return None
