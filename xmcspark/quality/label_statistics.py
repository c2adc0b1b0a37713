"""Metrics that look at labels rather than rows: coverage, macro-F1 and micro-F1. Partitions of rows give
whole counts per label; once those are added up by label, any partition of labels gives `MetricSums`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_sums import GRID, MetricSums, N, X, Y, on_grid
from xmcspark.quality.row_statistics import Truth
from xmcspark.sparse.distinct import union


@dataclass(frozen=True)
class LabelCounts:
    """How often each label was true, predicted among the first k, and both."""

    labels: np.ndarray  # int32 [labels], increasing
    actual: np.ndarray  # int64 [labels]
    hits: np.ndarray  # int64 [labels, ks]
    predicted: np.ndarray  # int64 [labels, ks]

    def __add__(self, other: LabelCounts) -> LabelCounts:
        if np.array_equal(self.labels, other.labels):
            return LabelCounts(
                self.labels,
                self.actual + other.actual,
                self.hits + other.hits,
                self.predicted + other.predicted,
            )
        labels = union(self.labels, other.labels)
        result = LabelCounts(
            labels,
            np.zeros(len(labels), np.int64),
            np.zeros((len(labels), self.hits.shape[1]), np.int64),
            np.zeros((len(labels), self.hits.shape[1]), np.int64),
        )
        for part in (self, other):
            place = np.searchsorted(labels, part.labels)
            result.actual[place] += part.actual
            result.hits[place] += part.hits
            result.predicted[place] += part.predicted
        return result


def label_counts_of(
    predictions: Predictions, truth: Truth, profile: LabelProfile, ks: tuple[int, ...]
) -> LabelCounts:
    """Counts over the rows of one partition, for the labels of `profile`."""
    n_labels = profile.n_labels
    hits = np.empty((n_labels, len(ks)), np.int64)
    predicted = np.empty((n_labels, len(ks)), np.int64)
    places = np.zeros(n_labels + 1, np.int64)  # the first is for padding, label -1
    done = 0
    for j in np.argsort(ks, kind="stable"):
        k = min(ks[j], predictions.k)
        places = places + np.bincount(predictions.labels[:, done:k].ravel() + 1, minlength=n_labels + 1)
        predicted[:, j] = places[1:]
        found = truth.label[(truth.position >= 0) & (truth.position < k)]
        hits[:, j] = np.bincount(found, minlength=n_labels)
        done = k
    return LabelCounts(profile.labels, np.bincount(truth.label, minlength=n_labels), hits, predicted)


def label_statistics(
    counts: LabelCounts, profile: LabelProfile, ks: tuple[int, ...], metrics: tuple[str, ...]
) -> MetricSums:
    """The sums of `metrics` (of LABEL_METRICS) over the labels of `counts`, which `profile` must cover.

    Labels that do not occur add nothing here; `with_all_labels` then counts them into macro-F1.
    """
    result = MetricSums.zero(metrics, ks, profile.bin_names)
    place = np.searchsorted(profile.labels, counts.labels)
    if len(place) and (place[-1] >= profile.n_labels or (profile.labels[place] != counts.labels).any()):
        raise InputError(
            "label counts hold a label that the profile does not: use the profile they were made with"
        )
    offset = 0
    for division in profile.divisions:
        of_label = division.of_label[place]
        for b in range(len(division.names)):
            inside = of_label == b
            for i, metric in enumerate(metrics):
                result.values[i, :, offset + b, :] += _sums(
                    metric, counts.actual[inside], counts.hits[inside], counts.predicted[inside]
                )
        offset += len(division.names)
    return result


def with_all_labels(sums: MetricSums, profile: LabelProfile) -> MetricSums:
    """Macro-F1 is over all labels, also those never true nor predicted (F1 0): their number comes last."""
    values = sums.values.copy()
    if "macro-F1" in sums.metrics:
        i = sums.metrics.index("macro-F1")
        values[i, :, :, N] = profile.bin_sizes
        values[i, :, :, Y] = profile.bin_sizes * int(GRID)
    return MetricSums(sums.metrics, sums.ks, sums.bins, values)


def _sums(metric: str, actual: np.ndarray, hits: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """n, x, y for each k of the labels of one bin, int64 [ks, 6]."""
    out = np.zeros((hits.shape[1], 6), np.int64)
    either = actual[:, None] + predicted
    if metric == "coverage":
        out[:, X] = np.count_nonzero(hits, axis=0)
        out[:, Y] = out[:, N] = np.count_nonzero(actual)
    elif metric == "micro-F1":
        out[:, X] = 2 * hits.sum(axis=0)
        out[:, Y] = either.sum(axis=0)
        out[:, N] = actual.sum()
    else:
        out[:, X] = on_grid(2 * hits / np.maximum(either, 1)).sum(axis=0)
    return out
