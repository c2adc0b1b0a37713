"""Runs of the stage index over small corpora, whose input tables are written here."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xmcspark.config.configuration import load
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run, StageRecord
from xmcspark.store.stage import Context, read_table
from xmcspark.tree.index_spark import STAGE
from xmcspark.tree.label_tree import LabelTree

FEATURES, LABELS = 60, 90


def corpus(rows: int = 400, seed: int = 0):
    """(X, Y): rows of length about 1, popular and rare labels; one label without rows, one row without labels."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, FEATURES, 0.15, format="csr", dtype=np.float32, random_state=rng)
    weights = 1.0 / np.arange(1, LABELS + 1)
    labels = [
        np.unique(rng.choice(LABELS, size=rng.integers(1, 4), p=weights / weights.sum())) for _ in range(rows)
    ]
    labels = [row[row != 7] for row in labels]
    labels[5] = labels[5][:0]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in labels])])
    indices = np.concatenate(labels)
    return X, sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(rows, LABELS))


def row_keys(rows: int) -> np.ndarray:
    return np.random.default_rng(99).integers(-(2**62), 2**62, rows)


def write_inputs(context, X, Y, *, files=2, order=None, hashes=None, ids=None) -> None:
    """The tables features and labels, and what vectorize notes. `ids` are the label ids of the columns of Y."""
    rows = X.shape[0]
    ids = np.arange(Y.shape[1]) if ids is None else ids
    hashes = np.arange(rows) * 7919 if hashes is None else hashes
    keys = row_keys(rows)
    found = []
    for i in range(rows) if order is None else order:
        x, y = slice(X.indptr[i], X.indptr[i + 1]), slice(Y.indptr[i], Y.indptr[i + 1])
        labels = ids[Y.indices[y]].tolist()
        features = X.indices[x].tolist(), X.data[x].tolist()
        found.append((f"i{i}", "train", *features, labels, [1.0] * len(labels), int(keys[i]), int(hashes[i])))
    found.append(("t0", "test", [1], [9.0], [0], [1.0], 5, 5))  # must be left alone
    spark = context.spark
    columns = "id string, split string, indices array<int>, values array<float>, labels array<int>, "
    frame = spark.createDataFrame(found, columns + "relevance array<float>, row_key bigint, row_hash bigint")
    spread = frame.repartition(files) if files > 1 else frame.coalesce(1)
    spread.write.partitionBy("split").parquet(context.run.table("features"))
    positives = np.bincount(Y.indices, minlength=Y.shape[1]).tolist()
    known = [(int(i), f"k{i}", None, True, n, None, None) for i, n in zip(ids, positives, strict=True)]
    missing = sorted(set(range(int(ids.max()))) - set(ids.tolist()))
    known += [(i, f"k{i}", None, False, 10**9, None, None) for i in missing]
    columns = (
        "id int, key string, text string, active boolean, positives bigint, first_seen date, last_seen date"
    )
    spark.createDataFrame(known, columns).coalesce(2).write.parquet(context.run.table("labels"))
    notes = {"features": FEATURES, "largest_value": float(X.data.max())}
    context.run.finish(
        StageRecord("augment", "none", 0.0, notes={"rows": 0, "observed_share": 1.0}, writes=["augmented"])
    )
    context.run.finish(StageRecord("vectorize", "test", 0.0, notes=notes, writes=["features", "vocabulary"]))


def context_in(spark, root, stage, *overrides, run):
    """As the fixture `make_context`, for fixtures that outlive a test."""
    fs = Filesystem(spark)
    config = load(None, [f"run.root={root}", f"run.id={run}", *overrides])
    return Context(spark, config, Run(fs, root, run), stage, key="test")


def indexed(make_context, name, X, Y, *overrides, **how):
    """The context of a finished index stage, in a run of its own."""
    context = make_context(STAGE, *overrides, run=name)
    write_inputs(context, X, Y, **how)
    STAGE.run(context)
    return context


def table(context, name: str, *order: str) -> list:
    return read_table(context.spark, context.run, name).orderBy(*order).collect()


def tree_of(context, member: int = 0) -> LabelTree:
    return LabelTree.load(context.fs.local_path(context.folder("tree")) + f"/{member}")


def label_features(context) -> tuple[np.ndarray, sp.csr_matrix]:
    """(labels, Z) as written."""
    rows = table(context, "label_features", "label")
    indptr = np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])])
    indices = np.array([i for row in rows for i in row.indices], np.int32)
    values = np.array([v for row in rows for v in row["values"]], np.float32)
    labels = np.array([row.label for row in rows])
    return labels, sp.csr_matrix((values, indices, indptr), shape=(len(rows), FEATURES))
