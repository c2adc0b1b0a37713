"""Bytes that are not UTF-8, which Spark lets through as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_REPLACED = "[\ufffd]"  # what Java makes of bytes that are not UTF-8; a set, so that it is matched as a regex


def is_not_utf8(text: Column) -> Column:
    suspect = F.coalesce(text.rlike(_REPLACED), F.lit(False))
    return F.when(suspect, as_utf8(text).cast("binary") != text.cast("binary")).otherwise(F.lit(False))


def as_utf8(text: Column) -> Column:
    """The text with each byte that is not UTF-8 replaced by U+FFFD."""
    return F.regexp_replace(text, _REPLACED, "\ufffd")
