"""Bytes that are not UTF-8, which Spark lets through as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_REPLACED = "[\ufffd]"  # what Java makes of bytes that are not UTF-8; a set, so that it is matched as a regex


def as_utf8(text: Column) -> Column:
    """The text with each byte that is not UTF-8 replaced by U+FFFD."""
    return F.regexp_replace(text, _REPLACED, "\ufffd")
