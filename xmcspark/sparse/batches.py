"""Arrow batches gathered into larger tables: kernels do better on tens of thousands of rows than on the few that
Spark hands over at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def grouped(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Tables of at least `rows` rows, the last one perhaps fewer; none that is empty."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)
