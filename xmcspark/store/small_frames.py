"""A few rows that the driver has, as a DataFrame. `createDataFrame` of a list starts Python workers only to hand the
rows through; here they travel inside the plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def small_frame(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    """Rows of numbers and texts. `schema` as Spark SQL has it: "id int, name string"."""
    names = [column.split()[0] for column in schema.split(",")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows], allow_nan=False)
    return spark.range(0, 1, 1, 1).select(F.inline(F.from_json(F.lit(text), _array_of(schema))))


def _array_of(schema: str) -> str:
    columns = (column.split() for column in schema.split(","))
    return f"array<struct<{','.join(f'{name}:{kind}' for name, kind in columns)}>>"
