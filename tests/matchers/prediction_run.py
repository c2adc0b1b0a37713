"""A run as the stages before predict leave it: tables written from arrays, a model with random matchers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from random_model import random_excluded, random_model, random_rows
from run_tables import write_table

from xmcspark.matchers.model import TreeModel
from xmcspark.store.runs import StageRecord

N_ROWS, N_LABELS = 90, 57


def models(members: int) -> tuple[TreeModel, ...]:
    return tuple(random_model(seed=seed) for seed in range(members))


def write_model(context: Any, members: int = 1, of: tuple[TreeModel, ...] | None = None) -> None:
    folder = Path(context.fs.local_path(context.run.folder("bundle/model")))
    for number, model in enumerate(of or models(members)):
        model.searcher.save(folder / str(number))


def write_features(context: Any, order: Any = None, partitions: int = 1, split: str = "test") -> None:
    """Instance `i<row>` for each row of X, and one training instance."""
    X = random_rows(N_ROWS)
    rows = [("t0", "train", [0], [1.0], [1], None, [1.0], 0, 0)]
    for row in range(N_ROWS) if order is None else order:
        at = slice(X.indptr[row], X.indptr[row + 1])
        features, values = X.indices[at].tolist(), X.data[at].tolist()
        rows.append((f"i{row}", split, features, values, [], None, [], int(row) * 7919 - 300, 0))
    write_table(context, "features", rows, partitions)
    context.run.finish(
        StageRecord("vectorize", "key", 0.0, notes={"features": X.shape[1]}, writes=["features"])
    )


def excluded_matrix() -> sp.csr_matrix:
    return random_excluded(N_ROWS, N_LABELS)


def write_exclude(context: Any) -> None:
    matrix = excluded_matrix()
    rows = [(f"i{row}", sorted(matrix[row].indices.tolist())) for row in range(N_ROWS) if matrix[row].nnz]
    write_table(context, "exclude", [*rows, ("nobody", [1, 2])])


def write_labels(context: Any, counts: Any = None, keys: Any = None) -> None:
    counts = np.ones(N_LABELS, np.int64) if counts is None else counts
    rows = [
        (label, keys[label] if keys else f"L{label}", None, True, int(count), None, None)
        for label, count in enumerate(counts)
    ]
    write_table(context, "labels", rows)


def table_rows(context: Any, table: str) -> list[Any]:
    from xmcspark.store.stage import read_table

    return read_table(context.spark, context.run, table).collect()
