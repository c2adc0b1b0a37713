"""Search that never returns the labels excluded for a row, and still returns `top_k`: it looks for as many more as
the row has exclusions, so the answer is the ranking of all labels the beam reaches, without the excluded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xmcspark.matchers.predictions import Predictions, row_blocks
from xmcspark.matchers.search import Searcher
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows


def search_without(
    searcher: Searcher, X: Csr, excluded: Csr, *, beam: int, top_k: int, threads: int = 1
) -> Predictions:
    """The `top_k` best labels of each row of X that `excluded` [rows, labels] does not hold for it.

    A row has fewer only if the beam reaches no more. The width is that of `searcher.predict`.
    """

    def find(rows: np.ndarray, k: int) -> Predictions:
        some = X if len(rows) == X.shape[0] else take_rows(X, rows)
        return searcher.predict(some, beam=beam, top_k=k, threads=threads)

    return found_without(find, excluded, top_k, min(top_k, searcher.tree.n_labels))


def found_without(
    find: Callable[[np.ndarray, int], Predictions], excluded: Csr, top_k: int, width: int
) -> Predictions:
    """What `find` (rows, increasing numbers; how many labels) finds for all rows, `top_k` of each that `excluded` does
    not hold for it, `width` columns wide. All rows are asked for at once if nothing is excluded."""
    counts = np.diff(excluded.indptr)
    if not counts.any():
        return find(np.arange(len(counts)), top_k)
    labels = np.full((len(counts), width), -1, np.int32)
    scores = np.full((len(counts), width), -np.inf, np.float32)
    for alike, more in rows_alike(counts):
        for start, stop in row_blocks(len(alike), top_k + more):
            rows = alike[start:stop]
            kept = without(find(rows, top_k + more), take_rows(excluded, rows), width)
            labels[rows], scores[rows] = kept.labels, kept.scores
    return Predictions(labels, scores)


def rows_alike(counts: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """(rows, how many labels more to find for them), from the number of each row's exclusions. Rows that need about as
    many more go together: one with thousands must not slow down all."""
    extra = np.where(counts > 0, 1 << np.frexp(np.maximum(counts - 1, 0).astype(np.float64))[1], 0)
    for more in np.unique(extra).tolist():
        yield np.flatnonzero(extra == more), more


def without(predictions: Predictions, excluded: Csr, top_k: int) -> Predictions:
    """The best `top_k` predictions that are not excluded for their row, in their order."""
    kept = (predictions.labels >= 0) & ~holds(excluded, predictions.labels)
    order = np.argsort(~kept, axis=1, kind="stable")[:, :top_k]
    there = np.take_along_axis(kept, order, axis=1)
    return Predictions(
        np.where(there, np.take_along_axis(predictions.labels, order, axis=1), np.int32(-1)),
        np.where(there, np.take_along_axis(predictions.scores, order, axis=1), np.float32(-np.inf)),
    )


def holds(matrix: Csr, labels: np.ndarray) -> np.ndarray:
    """bool [rows, k]: whether row i of `matrix` has an entry for labels[i, j]."""
    if not matrix.nnz:
        return np.zeros(labels.shape, bool)
    rows = np.arange(matrix.shape[0], dtype=np.int64)
    entries = _entries(matrix)
    wanted = (rows[:, None] << np.int64(32)) | labels
    places = np.minimum(np.searchsorted(entries, wanted.ravel()), len(entries) - 1)
    found: np.ndarray = entries[places].reshape(labels.shape) == wanted
    return found


def drop_entries(matrix: Csr, excluded: Csr) -> Csr:
    """A matrix [rows, labels] without the entries that `excluded` holds."""
    if not excluded.nnz:
        return matrix
    kept = ~np.isin(_entries(matrix), _entries(excluded))
    indptr = np.concatenate(([0], np.cumsum(kept)))[matrix.indptr]
    return Csr(indptr, matrix.indices[kept], matrix.data[kept], matrix.shape)


def _entries(matrix: Csr) -> np.ndarray:
    """One number for each (row, column) that is stored; increasing."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    numbers: np.ndarray = (rows << np.int64(32)) | matrix.indices
    return numbers
