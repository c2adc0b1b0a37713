"""One number for the contents of a table, whatever the order of its rows and however they are spread over files:
what "the same answer" is checked by."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType


def table_digest(frame: DataFrame) -> str:
    """Rows and the sum of their hashes mod 2^64, as text. Exact: integers only, so no order of adding matters."""
    parts = [part for field in frame.schema for part in _parts(F.col(f"`{field.name}`"), field.dataType)]
    # As decimals, because a sum of bigints overflows.
    summed = F.sum(F.xxhash64(*parts).cast("decimal(20,0)"))
    row = frame.agg(F.count(F.lit(1)).alias("rows"), summed.alias("hash")).collect()[0]
    return f"{row['rows']}-{int(row['hash'] or 0) % 2**64:016x}"


def _parts(column: Column, kind: DataType) -> list[Column]:
    """A column with what its hash does not see: nulls hash like nothing, and lists like the items they hold."""
    parts = [column, column.isNull()]
    if isinstance(kind, ArrayType):
        parts.append(F.size(column))
        if isinstance(kind.elementType, (ArrayType, StructType)):
            raise TypeError(
                f"table_digest: {kind.simpleString()} is not supported: lists of plain values only"
            )
        parts.append(F.transform(column, lambda item: item.isNull()))
    if isinstance(kind, StructType):
        for field in kind:
            parts += _parts(column.getField(field.name), field.dataType)
    return parts
