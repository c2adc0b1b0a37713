"""The rows that a repetition is trained on, from the table features: all of them, in an order that is the same however
the table was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.errors import InputError
from xmcspark.matchers.targets import select
from xmcspark.sparse.arrow import csr_of_lists, csr_of_targets
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows

COLUMNS = ("indices", "values", "labels", "targets", "row_key", "row_hash")


@dataclass(frozen=True)
class SketchRows:
    """Inputs and targets of all training rows. `made`: whether an augmentation made the row."""

    keys: np.ndarray  # int64
    X: Csr
    Y: Csr
    relevance: Csr | None
    made: np.ndarray


def gathered_rows(
    batches: Iterable[pa.RecordBatch], features: int, live: np.ndarray, relevance: bool
) -> SketchRows:
    """All rows with COLUMNS (and `relevance`); of their labels those that are live."""
    table = pa.Table.from_batches(list(batches))
    X = csr_of_lists(table["indices"], table["values"], features, "features")
    Y = csr_of_targets(table["labels"], table["targets"], len(live))
    if X.nnz and (X.indices.min() < 0 or X.indices.max() >= features):
        raise InputError(
            f"the table features names feature {X.indices.max()}, but there are only {features}: the tables of this "
            "run do not belong together, run it again from vectorize on"
        )
    check_label_ids(Y.indices, len(live))
    stays = live[Y.indices]
    R = select(csr_of_lists(table["labels"], table["relevance"], len(live)), stays) if relevance else None
    keys, hashes = table["row_key"].to_numpy(), table["row_hash"].to_numpy()
    made = pc.is_valid(table["targets"]).to_numpy(zero_copy_only=False)
    del table
    order = np.lexsort((hashes, keys))
    return SketchRows(
        keys[order],
        take_rows(X, order),
        take_rows(select(Y, stays), order),
        None if R is None else take_rows(R, order),
        made[order],
    )


def check_label_ids(labels: np.ndarray, ids: int) -> None:
    """That labels of training rows are ids below `ids`, all that are hashed: none is left out silently."""
    if len(labels) and (labels.min() < 0 or labels.max() >= ids):
        bad = labels.min() if labels.min() < 0 else labels.max()
        raise InputError(
            f"the table features names label {bad}, but the table labels ends at {ids - 1}: the tables of this run do "
            "not belong together, run it again from corpus on"
        )
