"""A run with the tables and folders that training reads, from a small random problem, and the local model of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from small_problem import even_tree, random_problem
from tree_units import node_counts, units_of

from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import as_csr
from xmcspark.store.runs import StageRecord
from xmcspark.store.tables import TABLES
from xmcspark.tree.units import save_units

FEATURES = 40


@dataclass(frozen=True)
class Problem:
    X: Any
    Y: Any
    R: Any
    keys: np.ndarray
    trees: tuple[Any, ...]  # of each member


def training_problem(rows=400, labels=90, shape=(3, 14), members=1, seed=0, soft=False):
    """Rows in the order of training; the tree lacks the last label, and one label has no rows. `soft`: every third
    row has targets below 1."""
    X, Y = random_problem(rows=rows, features=FEATURES, labels=labels, seed=seed)
    X = (sp.diags(1 / np.maximum(1e-6, np.sqrt(X.multiply(X).sum(axis=1)).A1)) @ X).tocsr().astype(np.float32)
    Y = Y.tolil()
    Y[:, [4, labels - 1]] = 0
    Y[5] = 0
    Y = Y.tocsr()
    rng = np.random.default_rng(seed)
    if soft:
        third = np.repeat(np.arange(rows) % 3 == 0, np.diff(Y.indptr))
        Y.data[third] = rng.uniform(0.05, 1, third.sum())
    R = Y.copy()
    R.data = rng.uniform(0.1, 9, Y.nnz).astype(np.float32)
    keys = np.sort(rng.integers(-(2**63), 2**63 - 1, rows, dtype=np.int64))
    trees = tuple(even_tree(labels - 1, shape, seed=seed + m) for m in range(members))
    return Problem(X, Y, R, keys, trees)


def write_inputs(context, problem, partitions=2, seed=0, parts=8, other_label=10_000):
    """Writes the table features, shuffled by `seed`, and the folder tree. `other_label`: one that some rows have and
    no tree."""
    X, Y = as_csr(problem.X), as_csr(problem.Y)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    rows = []
    for r in order.tolist():
        x, y = (slice(M.indptr[r], M.indptr[r + 1]) for M in (X, Y))
        labels, costs, targets = Y.indices[y].tolist(), problem.R.data[y].tolist(), Y.data[y].tolist()
        if r % 7 == 0:
            labels, costs, targets = [*labels, other_label], [*costs, 1.0], [*targets, 0.5]
        given = targets if (Y.data[y] < 1).any() else None
        x_row = X.indices[x].tolist(), X.data[x].tolist()
        rows.append((str(r), "train", *x_row, labels, given, costs, int(problem.keys[r]), r))
    rows.append(("t", "test", [0], [1.0], [0], None, [1.0], 0, 0))
    frame = context.spark.createDataFrame(rows, TABLES["features"].schema)
    frame.repartition(partitions).write.mode("overwrite").partitionBy("split").parquet(
        context.run.table("features")
    )
    for member, tree in enumerate(problem.trees):
        folder = Path(context.fs.local_path(context.run.folder("tree"))) / str(member)
        tree.save(folder)
        Y_tree = problem.Y[:, : tree.n_labels]
        counts = node_counts(tree, problem.X, Y_tree)
        save_units(units_of(tree, problem.X, Y_tree, parts), counts, folder / "units")
    context.run.finish(StageRecord("vectorize", "v", 0.0, {}, {"features": FEATURES}, ["features"]))
    context.run.finish(StageRecord("index", "i", 0.0, {}, {}, ["tree/"]))


def local_model(problem, member, settings, augment):
    """Rows that have soft targets have the weights of made ones."""
    tree = problem.trees[member]
    soft = np.minimum.reduceat(np.append(problem.Y.data, 1), problem.Y.indptr[:-1]) < 1
    soft &= np.diff(problem.Y.indptr) > 0
    Y, R = problem.Y[:, : tree.n_labels], problem.R[:, : tree.n_labels]
    return train_matchers(
        problem.X,
        Y,
        tree,
        replace(settings, seed=settings.seed + member),
        relevance=R if settings.cost_sensitive else None,
        row_keys=problem.keys,
        row_weights=np.where(soft, augment.weight, 1.0),
        row_negatives=np.where(soft, augment.negatives, 1.0),
    )


def folder_bytes(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
