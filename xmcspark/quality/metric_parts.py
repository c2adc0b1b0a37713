"""How parts of an evaluation travel: what a block of rows adds to the metrics, as whole numbers in arrays. Labels
that a block does not touch cost it nothing, and what is counted by label is cut by label, so that no part grows with
all labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_pairs import PAIR_METRICS
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_statistics import LabelCounts, label_statistics
from xmcspark.quality.metric_sums import LABEL_METRICS, ROW_METRICS, WEIGHTED_METRICS, MetricSums
from xmcspark.quality.metrics import METRICS, PartialMetrics, partial_metrics
from xmcspark.quality.replicates import Replicates
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.distinct import union

_BLOCK_LABELS = 1 << 20  # counts of so many are held by one task
_TASK_PAIRS = 1 << 18  # (label, row) pairs that are worth a task of their own
_MOST_PAIRS = 1 << 21  # that a task should hold: some hundred bytes each
_Sums = TypeVar("_Sums", MetricSums, Replicates)


def block_metrics(
    predictions: Predictions,
    truth: Csr,
    profile: LabelProfile,
    ks: Sequence[int],
    bootstrap: int = 0,
    row_keys: np.ndarray | None = None,
) -> PartialMetrics:
    """As `partial_metrics`, in memory that follows the labels of these rows only."""
    occurring = union(predictions.labels.ravel(), truth.indices)
    occurring = occurring[occurring >= 0]
    if len(occurring) and occurring[-1] >= profile.n_labels:
        raise InputError(
            f"label {occurring[-1]} occurs among instances or predictions, but the table labels ends at "
            f"{profile.n_labels - 1}: they are not of the same run, run corpus and predict again"
        )
    placed = np.where(predictions.labels >= 0, np.searchsorted(occurring, predictions.labels), -1)
    places = np.searchsorted(occurring, truth.indices).astype(np.int32)
    own = Csr(truth.indptr, places, truth.data, (truth.shape[0], len(occurring)))
    found, seen = Predictions(placed, predictions.scores), profile.take(occurring)
    return partial_metrics(found, own, seen, ks, bootstrap=bootstrap, row_keys=row_keys)


def blocks_of_labels(n_labels: int, n_rows: int, k: int, slots: int) -> tuple[int, int]:
    """(blocks, labels of each): counts of a block, and its pairs with rows, are held by one task; where there are pairs
    for more tasks, there are more blocks, up to some for each slot."""
    pairs = n_rows * (k + 4)
    tasks = max(min(pairs // _TASK_PAIRS, 4 * slots), pairs // _MOST_PAIRS)
    wanted = max(1, -(-n_labels // _BLOCK_LABELS), min(tasks, n_labels))
    block_labels = max(1, -(-n_labels // wanted))
    return max(1, -(-n_labels // block_labels)), block_labels


def no_row_sums(profile: LabelProfile, ks: Sequence[int]) -> MetricSums:
    """Of all metrics over rows that a profile allows, over no rows yet."""
    return MetricSums.zero(_possible(ROW_METRICS, profile), tuple(ks), profile.bin_names)


def no_row_replicates(profile: LabelProfile, ks: Sequence[int], bootstrap: int) -> Replicates:
    """Of all metrics that are sums over rows, over no rows yet."""
    metrics = tuple(m for m in _possible(METRICS, profile) if m not in PAIR_METRICS)
    return Replicates.zero(metrics, len(ks), len(profile.bin_names), bootstrap)


def no_label_sums(profile: LabelProfile, ks: Sequence[int]) -> MetricSums:
    """Of all metrics over labels, over no labels yet."""
    return MetricSums.zero(LABEL_METRICS, tuple(ks), profile.bin_names)


def _possible(metrics: tuple[str, ...], profile: LabelProfile) -> tuple[str, ...]:
    return tuple(m for m in metrics if profile.weights is not None or m not in WEIGHTED_METRICS)


def with_bytes(sums: _Sums, *parts: bytes | None) -> _Sums:
    """Sums plus the numbers of others of their kind, which travelled as bytes; None is nothing."""
    values = sums.values.copy()
    for part in filter(None, parts):
        values += np.frombuffer(part, np.int64).reshape(values.shape)
    return replace(sums, values=values)


def counts_table(counts: LabelCounts) -> np.ndarray:
    """int64 [labels, 2 + 2 ks]: label, actual, hits, predicted; labels that do not occur left out."""
    table = np.column_stack([counts.labels.astype(np.int64), counts.actual, counts.hits, counts.predicted])
    occurring: np.ndarray = table[table[:, 1:].any(axis=1)]
    return occurring


def cut_by_block(
    lines: np.ndarray, labels: np.ndarray, block_labels: int, most: int
) -> Iterator[tuple[int, np.ndarray]]:
    """(number of a block of labels, those of the lines that are about them), in pieces of at most `most` lines."""
    if not len(lines):
        return
    block = labels // block_labels
    order = np.argsort(block, kind="stable")
    numbers, starts = np.unique(block[order], return_index=True)
    for number, part in zip(numbers, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(part), most):
            yield int(number), lines[part[start : start + most]]


def added_counts(tables: Sequence[np.ndarray]) -> np.ndarray:
    """One line a label, in their order: the counts of several tables, added up."""
    table = np.concatenate(tables)
    if not len(table):
        return table
    table = table[np.argsort(table[:, 0], kind="stable")]
    starts = np.flatnonzero(np.concatenate(([True], np.diff(table[:, 0]) != 0)))
    added: np.ndarray = np.add.reduceat(table, starts, axis=0)
    added[:, 0] = table[starts, 0]
    return added


def block_label_sums(table: np.ndarray, profile: LabelProfile, ks: Sequence[int]) -> MetricSums:
    """What the labels of a table of added counts add to the metrics over labels."""
    labels, k = table[:, 0].astype(np.int32), len(ks)
    counts = LabelCounts(labels, table[:, 1], table[:, 2 : 2 + k], table[:, 2 + k :])
    return label_statistics(counts, profile.take(labels), tuple(ks), LABEL_METRICS)
