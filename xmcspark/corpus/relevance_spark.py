"""The relevance formula of the configuration, `corpus.relevance`. Decides what such a formula may be, and checks it on
the driver, before any data is read."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from xmcspark.errors import ConfigError

COLUMNS = "clicks bigint, purchases bigint, impressions bigint, age int"
# Relevance is added up over days in whole steps of this size, so that the sum is the same in any order.
STEP = 2.0**-20


def check_formula(spark: SparkSession, formula: str) -> None:
    """ConfigError if it is no number for each row."""
    empty = spark.createDataFrame([], COLUMNS)
    try:
        frame = empty.select("clicks", F.expr(formula).alias("relevance"))
        plan = frame._jdf.queryExecution().analyzed()
        plain = plan.deterministic() and plan.children().head().children().isEmpty()
    except Exception as error:  # ParseException, AnalysisException: their first line says what is wrong
        raise _wrong(formula, str(error).strip().splitlines()[0]) from error
    if not plain:
        raise _wrong(formula, "random numbers, window functions and generators cannot be used")
    kind = frame.schema["relevance"].dataType
    if not isinstance(kind, NumericType):
        raise _wrong(formula, f"it gives {kind.simpleString()}, not a number")


def steps(formula: str) -> Column:
    """The relevance of a row in whole steps; a null counts for nothing."""
    return F.coalesce(F.round(F.expr(formula).cast("double") / STEP).cast("bigint"), F.lit(0))


def _wrong(formula: str, problem: str) -> ConfigError:
    return ConfigError(
        [
            f"corpus.relevance is {formula!r}: {problem}; expected SQL over clicks, purchases, impressions and age"
        ]
    )
