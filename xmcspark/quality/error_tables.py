"""What went wrong, for people who look into it with SQL: by instance, which labels were missed and what ranked above
the first right one; by label, how often it was found and what was said in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xmcspark.matchers.predictions import Predictions
from xmcspark.sparse.csr import Csr

CONFUSED = (
    3  # wrong predictions of an instance that count as said in place of what it missed; and kept for a label
)
_SHIFT = np.int64(32)


@dataclass(frozen=True)
class _Hits:
    """The first k predictions of each row, and which of them are true."""

    best: np.ndarray  # int32 [rows, k], -1 for none
    hit: np.ndarray  # bool [rows, k]
    missed: np.ndarray  # bool [true labels]
    row: np.ndarray  # int64 [true labels]

    @staticmethod
    def of(predictions: Predictions, truth: Csr, k: int) -> _Hits:
        best = predictions.top(k)
        position = best.positions_of(truth)
        row = np.repeat(np.arange(best.rows), np.diff(truth.indptr))
        hit = np.zeros(best.labels.shape, bool)
        found = position >= 0
        hit[row[found], position[found]] = True
        return _Hits(best.labels, hit, ~found, row)


def instance_errors(predictions: Predictions, truth: Csr, k: int) -> dict[str, pa.Array]:
    """Columns of the table `instance_errors`, a row for each of `truth`."""
    found, n = _Hits.of(predictions, truth, k), truth.shape[0]
    ranked = np.where(found.hit, np.arange(1, found.hit.shape[1] + 1), k + 1)
    first = ranked.min(axis=1, initial=k + 1)
    above = (found.best >= 0) & (np.arange(1, found.best.shape[1] + 1) < first[:, None])
    score = predictions.scores[:, 0] if predictions.k else np.full(n, -np.inf, np.float32)
    return {
        "actual": pa.array(np.diff(truth.indptr).astype(np.int32)),
        "hits": pa.array(found.hit.sum(axis=1).astype(np.int32)),
        "first_hit": pa.array(first.astype(np.int32), mask=first > k),
        "score": pa.array(score, mask=score == -np.inf),
        "missed": _lists(np.bincount(found.row[found.missed], minlength=n), truth.indices[found.missed]),
        "wrong": _lists(above.sum(axis=1), found.best[above]),
    }


def confusions(predictions: Predictions, truth: Csr, k: int) -> np.ndarray:
    """int64 [pairs, 3]: a label that was missed, one that was wrong, and in how many rows they were that together.
    Counted are the best few wrong predictions of each row."""
    found = _Hits.of(predictions, truth, k)
    wrong = (found.best >= 0) & ~found.hit
    wrong &= np.cumsum(wrong, axis=1) <= CONFUSED
    n_wrong = wrong.sum(axis=1)
    first = np.cumsum(n_wrong) - n_wrong
    row, label = found.row[found.missed], truth.indices[found.missed]
    times = n_wrong[row]
    at = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times - first[row], times)
    return _counted(np.repeat(label, times).astype(np.int64), found.best[wrong][at].astype(np.int64))


def added_confusions(tables: Sequence[np.ndarray]) -> np.ndarray:
    """One line a pair, in their order: the counts of several tables, added up."""
    table = np.concatenate(tables)
    return _counted(table[:, 0], table[:, 1], table[:, 2])


def _counted(missed: np.ndarray, wrong: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    pair, place = np.unique(missed << _SHIFT | wrong, return_inverse=True)
    counts = np.bincount(place, times, len(pair)).astype(np.int64)
    return np.column_stack([pair >> _SHIFT, pair & np.int64(2**32 - 1), counts])


def label_errors(
    counts: np.ndarray, confused: np.ndarray, positives: np.ndarray, ks: tuple[int, ...]
) -> dict[str, pa.Array]:
    """Columns of the table `label_errors`, a row for each k of each label, from added counts [labels, 2 + 2 ks] (see
    `metric_parts.counts_table`), added confusions, and the labels' positives."""
    n, by_k = len(counts), np.argsort(ks, kind="stable")
    hits, predicted = (counts[:, 2 + at + by_k].ravel() for at in (0, len(ks)))
    actual = np.repeat(counts[:, 1], len(ks))
    times, labels, counted = _most_confused(confused, counts[:, 0])
    largest = np.zeros((n, len(ks)), np.int64)
    largest[:, -1] = times
    return {
        "label": pa.array(np.repeat(counts[:, 0], len(ks)).astype(np.int32)),
        "k": pa.array(np.tile(np.sort(ks), n).astype(np.int32)),
        "positives": pa.array(np.repeat(positives, len(ks)).astype(np.int64)),
        "actual": pa.array(actual),
        "predicted": pa.array(predicted),
        "hits": pa.array(hits),
        "precision": _share(hits, predicted),
        "recall": _share(hits, actual),
        "confused_with": _lists(largest.ravel(), labels.astype(np.int32)),
        "confused_times": _lists(largest.ravel(), counted),
    }


def _most_confused(confused: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(how many for each of `labels`, which, how often each): those said most often in its place, ties by id."""
    ranked = confused[np.lexsort((confused[:, 1], -confused[:, 2], confused[:, 0]))]
    first = np.searchsorted(ranked[:, 0], ranked[:, 0])
    ranked = ranked[np.arange(len(ranked)) - first < CONFUSED]
    ends = np.searchsorted(ranked[:, 0], labels, side="right")
    return ends - np.searchsorted(ranked[:, 0], labels), ranked[:, 1], ranked[:, 2]


def _share(part: np.ndarray, whole: np.ndarray) -> pa.Array:
    """Null where there is nothing to have a part of."""
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)


def _lists(lengths: np.ndarray, values: np.ndarray) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
