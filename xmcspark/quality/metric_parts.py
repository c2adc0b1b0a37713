"""How parts of an evaluation travel: what a block of rows adds to the metrics, as whole numbers in arrays. Labels
that a block does not touch cost it nothing, and counts are cut by label, so that no part grows with all labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_statistics import LabelCounts, label_statistics
from xmcspark.quality.metric_sums import LABEL_METRICS, ROW_METRICS, WEIGHTED_METRICS, MetricSums
from xmcspark.quality.metrics import PartialMetrics, partial_metrics
from xmcspark.sparse.csr import Csr


def block_metrics(
    predictions: Predictions, truth: Csr, profile: LabelProfile, ks: Sequence[int]
) -> PartialMetrics:
    """As `partial_metrics`, in memory that follows the labels of these rows only."""
    occurring = np.unique(np.concatenate([predictions.labels.ravel(), truth.indices]))
    occurring = occurring[occurring >= 0]
    if len(occurring) and occurring[-1] >= profile.n_labels:
        raise InputError(
            f"label {occurring[-1]} occurs among instances or predictions, but the table labels ends at "
            f"{profile.n_labels - 1}: they are not of the same run, run corpus and predict again"
        )
    placed = np.where(predictions.labels >= 0, np.searchsorted(occurring, predictions.labels), -1)
    places = np.searchsorted(occurring, truth.indices).astype(np.int32)
    own = Csr(truth.indptr, places, truth.data, (truth.shape[0], len(occurring)))
    return partial_metrics(Predictions(placed, predictions.scores), own, profile.take(occurring), ks)


def no_row_sums(profile: LabelProfile, ks: Sequence[int]) -> MetricSums:
    """Of all metrics over rows that a profile allows, over no rows yet."""
    metrics = tuple(m for m in ROW_METRICS if profile.weights is not None or m not in WEIGHTED_METRICS)
    return MetricSums.zero(metrics, tuple(ks), profile.bin_names)


def no_label_sums(profile: LabelProfile, ks: Sequence[int]) -> MetricSums:
    """Of all metrics over labels, over no labels yet."""
    return MetricSums.zero(LABEL_METRICS, tuple(ks), profile.bin_names)


def with_bytes(sums: MetricSums, *parts: bytes) -> MetricSums:
    """Sums plus the numbers of others of their kind, which travelled as bytes."""
    values = sums.values.copy()
    for part in parts:
        values += np.frombuffer(part, np.int64).reshape(values.shape)
    return MetricSums(sums.metrics, sums.ks, sums.bins, values)


def counts_table(counts: LabelCounts) -> np.ndarray:
    """int64 [labels, 2 + 2 ks]: label, actual, hits, predicted; labels that do not occur left out."""
    table = np.column_stack([counts.labels.astype(np.int64), counts.actual, counts.hits, counts.predicted])
    occurring: np.ndarray = table[table[:, 1:].any(axis=1)]
    return occurring


def cut_by_block(table: np.ndarray, block_labels: int, most_labels: int) -> Iterator[tuple[int, np.ndarray]]:
    """(number of a block of labels, its part of the table), in pieces of at most `most_labels`."""
    block = table[:, 0] // block_labels
    for number in np.unique(block):
        part = table[block == number]
        for start in range(0, len(part), most_labels):
            yield int(number), part[start : start + most_labels]


def added_counts(tables: Sequence[np.ndarray]) -> np.ndarray:
    """One line a label: the counts of several tables, added up."""
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
