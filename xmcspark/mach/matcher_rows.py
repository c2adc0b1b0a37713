"""What a linear repetition learned as rows of the table matchers: a row for each bucket, the child of a root."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from xmcspark.mach.repetition import LinearRepetition
from xmcspark.matchers.matcher_rows import ROWS
from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows

_MOST_WEIGHTS = 1 << 20  # in one batch


def repetition_rows(repetition: LinearRepetition, member: int, run: str) -> Iterator[pa.RecordBatch]:
    """In batches, bucket after bucket. Features are those that the classifier sees: columns, if they are hashed."""
    part = repetition.part
    by_feature = Csr(
        repetition.indptr,
        repetition.buckets.astype(np.int32),
        repetition.values,
        (part.columns, part.buckets),
    )
    W, first = by_feature.transpose(), 0
    while first < part.buckets:
        full = int(np.searchsorted(W.indptr, W.indptr[first] + _MOST_WEIGHTS, side="right")) - 1
        last = min(max(first + 1, full), part.buckets)
        buckets = np.arange(first, last, dtype=np.int32)
        zeros = np.zeros(last - first, np.int32)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(zeros + np.int32(member)),
                pa.array(zeros),
                pa.array(zeros),
                pa.array(buckets),
                pa.array(np.zeros(last - first, bool)),
                pa.array(repetition.bias[first:last]),
                *lists_of_csr(take_rows(W, buckets.astype(np.int64))),
                pa.nulls(last - first, pa.int64()),
                pa.array([run] * (last - first), pa.string()),
            ],
            schema=ROWS,
        )
        first = last
