"""What the footers of Parquet files on this machine's filesystem tell without a Spark job: columns, row groups, and
the bounds of numbers. Decides which types are plain enough to be told from here; of others Spark is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import parquet

_MOST_FILES = 200  # a footer takes a few milliseconds
_PLAIN = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
}


@dataclass(frozen=True)
class Footers:
    """The footers of all files of a table."""

    metadata: tuple[parquet.FileMetaData, ...]

    @property
    def columns(self) -> dict[str, str | None]:
        """Spark's types by name, those of the first file; None where only Spark knows it."""
        schema = self.metadata[0].schema.to_arrow_schema()
        return {field.name: _spark_type(field.type) for field in schema}

    @property
    def row_groups(self) -> int:
        return sum(file.num_row_groups for file in self.metadata)

    @property
    def rows(self) -> int:
        return sum(file.num_rows for file in self.metadata)

    def is_dense(self, column: str) -> bool | None:
        """Whether the column's lowest number is 0 and its highest the number of rows less one; None if unknown."""
        bounds = [
            _bounds(file.row_group(at), column) for file in self.metadata for at in range(file.num_row_groups)
        ]
        known = [found for found in bounds if found is not None]
        if not known or len(known) < len(bounds):
            return None
        return min(low for low, _ in known) == 0 and max(high for _, high in known) == self.rows - 1


def read_footers(files: Sequence[str]) -> Footers | None:
    """None if there are too many files to look at, or one of them is damaged: Spark then says what is wrong."""
    if not 0 < len(files) <= _MOST_FILES:
        return None
    try:
        return Footers(tuple(parquet.read_metadata(file) for file in files))
    except (OSError, pa.ArrowException):
        return None


def _spark_type(kind: pa.DataType) -> str | None:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _PLAIN.get(kind.value_type)
        return f"array<{inner}>" if inner else None
    return _PLAIN.get(kind)


def _bounds(group: parquet.RowGroupMetaData, column: str) -> tuple[int, int] | None:
    for at in range(group.num_columns):
        found = group.column(at)
        if found.path_in_schema == column:
            known = found.statistics
            if known is None or not known.has_min_max or not isinstance(known.min, int):
                return None
            return known.min, known.max
    return None
