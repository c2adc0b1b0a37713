"""How many labels instances have and how long their texts are, added up over Arrow batches by bins of both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SUMS = [(name, how) for name in ("labels", "length") for how in ("count", "sum", "max")]
_NUMBERS = ["labels_place", "length_place", *(f"{name}_{how}" for name, how in _SUMS)]
INSTANCE_TOTALS = ", ".join(["split string", *(f"{name} bigint" for name in _NUMBERS)])
_ARROW = pa.schema([("split", pa.string()), *((name, pa.int64()) for name in _NUMBERS)])


def instance_totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From split, labels and text to rows of INSTANCE_TOTALS, one for each split and pair of bins."""
    found = [_of_batch(batch) for batch in batches if batch.num_rows]
    if found:
        yield from _added(pa.concat_tables(found)).cast(_ARROW).to_batches()


def _of_batch(batch: pa.RecordBatch) -> pa.Table:
    columns = {"split": batch.column("split").cast(pa.string())}
    numbers = {
        "labels": pc.list_value_length(batch.column("labels")),
        "length": pc.utf8_length(batch.column("text")),
    }
    for name, column in numbers.items():
        number = column.cast(pa.int64()).fill_null(0)
        columns |= {
            f"{name}_place": pa.array(_bits(number.to_numpy())),
            f"{name}_count": pa.repeat(1, len(number)),
        }
        columns |= {f"{name}_sum": number, f"{name}_max": number}
    return _added(pa.table(columns))


def _added(rows: pa.Table) -> pa.Table:
    """One row for each split and pair of bins."""
    by = ["split", "labels_place", "length_place"]
    how = [(f"{name}_{how}", "max" if how == "max" else "sum") for name, how in _SUMS]
    found = rows.group_by(by).aggregate(how)
    named = {f"{column}_{kind}": column for column, kind in how}
    return found.rename_columns([named.get(name, name) for name in found.column_names]).select(_ARROW.names)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """The length of each number in bits, its bin in a `Distribution`; exact, as logarithms are not."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
