"""Which records of the logs can be used, and why the others cannot. Decides how queries, counts and days are read:
spaces and control characters become single spaces; case and Unicode form stay, they belong to text.normalize."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from xmcspark.corpus.ingest_settings import COUNTS, IngestSettings

_NOT_TEXT = "[\ufffd]"  # what Java makes of bytes that are not UTF-8; a set, so that it is matched as a regex
_SPACES = r"[\s\p{Z}\p{Cc}]+"
_MAX_COUNT = 1e12  # sums of millions of them still fit a bigint
_MAX_KEY_CHARS = 1000
_FIRST_DAY = "1970-01-01"


def checked_records(raw: DataFrame, settings: IngestSettings) -> DataFrame:
    """Of raw records with a `path_day` (null where paths have none): `dt`, `reason` (null if usable), the columns of
    interactions where usable, `file` and `record` where not."""
    read = _as_read(raw, settings)
    reason = F.coalesce(*(F.when(wrong, F.lit(why)) for why, wrong in _problems(settings)))
    judged = read.withColumn("reason", reason)
    usable = F.col("reason").isNull()
    kept = ("query", "label_key", "label_text", *COUNTS)
    return judged.select(
        # The day of a record that cannot be used is where it was found, else what it says.
        F.coalesce("path_day", "day").alias("dt"),
        "reason",
        *(F.when(usable, F.col(name)).alias(name) for name in kept),
        *(F.when(~usable, F.col(name)).alias(name) for name in ("file", "record")),
        F.lit(1).cast("bigint").alias("records"),
    )


def _as_read(raw: DataFrame, settings: IngestSettings) -> DataFrame:
    texts = F.concat_ws(" ", "line_text", "query", "label_key", "label_text")
    clicks_missing = 1 if settings.click_per_record else 0
    counts = []
    for name in COUNTS:
        given = F.col(name).isNotNull() & (F.trim(name) != "")
        missing = clicks_missing if name == "clicks" else 0
        number = F.expr(f"try_cast(`{name}` AS double)")
        counts.append(F.when(given, number).otherwise(F.lit(float(missing))).alias(f"{name}_number"))
    whole_day = F.col("dt").rlike(r"^\d{4}-\d{2}-\d{2}")
    shaped = raw.select(
        texts.rlike(_NOT_TEXT).alias("not_text"),
        "malformed",
        _cleaned("query").alias("query"),
        F.trim("label_key").alias("label_key"),
        F.substring(_cleaned("label_text"), 1, settings.max_label_chars).alias("label_text"),
        *counts,
        F.when(whole_day, F.expr("try_cast(substring(dt, 1, 10) AS date)")).alias("day"),
        "path_day",
        "file",
        "record",
    )
    # Only read where the checks found whole numbers, so that the cast cannot fail.
    safe = [
        F.when(~_no_count(name), F.col(f"{name}_number")).otherwise(F.lit(0.0)).cast("bigint").alias(name)
        for name in COUNTS
    ]
    return shaped.select("*", *safe).withColumn("label_text", F.expr("nullif(label_text, '')"))


def _problems(settings: IngestSettings) -> Iterator[tuple[str, Column]]:
    """Reasons and when they hold, the most telling first."""
    yield "not UTF-8 text", F.col("not_text")
    yield "malformed record", F.col("malformed")
    for name in ("query", "label_key"):
        yield f"{name} is missing", F.col(name).isNull()
        yield f"{name} is empty", F.col(name) == ""
    yield (
        f"query is longer than {settings.max_query_chars} characters",
        (F.length("query") > settings.max_query_chars),
    )
    yield f"label_key is longer than {_MAX_KEY_CHARS} characters", F.length("label_key") > _MAX_KEY_CHARS
    for name in COUNTS:
        number = F.col(f"{name}_number")
        yield f"{name} is not a number", number.isNull() | F.isnan(number)
        yield f"{name} is negative", number < 0
        yield f"{name} is not a whole number up to 10^12", _no_count(name)
    if settings.columns.dt is not None:
        yield "the day is missing or not YYYY-MM-DD", F.col("day").isNull()
        yield "the day is not that of the path", F.col("day") != F.col("path_day")
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
        yield "the day is before 1970 or in the future", ~F.col("day").between(_FIRST_DAY, tomorrow)


def _no_count(name: str) -> Column:
    number = F.col(f"{name}_number")
    whole = (number >= 0) & (number <= _MAX_COUNT) & (number == F.floor(F.least(number, F.lit(_MAX_COUNT))))
    return ~F.coalesce(whole, F.lit(False))


def _cleaned(name: str) -> Column:
    return F.trim(F.regexp_replace(name, _SPACES, " "))
