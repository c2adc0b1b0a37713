"""The bootstrap of metrics that look at labels: coverage and macro-F1. A resample holds fewer distinct labels, and
varies too little in what it finds of them, so these metrics are not computed anew in each replicate: each (label, row)
pair counts for what the metric would lose without it (the jackknife's influence), and replicates weigh that. Partitions
of rows pass on their pairs, in 14 bytes each; whoever has all pairs of some labels knows what each is worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.bootstrap import poisson_weights
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_sums import MetricSums, on_grid
from xmcspark.quality.metric_sums import X as SUM_X
from xmcspark.quality.metric_sums import Y as SUM_Y
from xmcspark.quality.replicates import Replicates, X, Y
from xmcspark.quality.row_statistics import Truth

PAIR_METRICS = ("coverage", "macro-F1")
_COVERAGE, _MACRO_F1 = range(2)
# kind: 2s + 1 for a hit and 2s for a wrong prediction that the s-th smallest k is the first to count; last: missed.
PAIR = np.dtype([("label", "<i4"), ("kind", "<i2"), ("row_key", "<i8")])
_MOST_ROWS = 1 << 13  # weighed together
_MOST_PAIRS = 1 << 18  # of those: sums of numbers up to 2^30, with weights below 2^4, stay below 2^53


def label_pairs(
    predictions: Predictions, truth: Truth, profile: LabelProfile, ks: tuple[int, ...], row_keys: np.ndarray
) -> np.ndarray:
    """The pairs of some rows, PAIR [pairs]; label ids are those that `profile` has at the places given."""
    best = predictions.labels[:, : max(ks)]
    hit = np.zeros(best.shape, bool)
    found = truth.position >= 0
    hit[truth.row[found], truth.position[found]] = True
    step = np.searchsorted(np.sort(ks), np.arange(best.shape[1]), side="right")
    there = best >= 0
    rows = np.broadcast_to(np.arange(len(best))[:, None], best.shape)[there]
    pairs = np.empty(len(rows) + np.count_nonzero(~found), PAIR)
    pairs["label"] = profile.labels[np.concatenate([best[there], truth.label[~found]])]
    pairs["row_key"] = row_keys[np.concatenate([rows, truth.row[~found]])]
    pairs["kind"][: len(rows)] = (2 * step + hit)[there]
    pairs["kind"][len(rows) :] = 2 * len(ks)
    return pairs


def no_deviations(profile: LabelProfile, ks: tuple[int, ...], count: int) -> Replicates:
    return Replicates.zero(PAIR_METRICS, len(ks), len(profile.bin_names), count)


def pair_deviations(pairs: np.ndarray, profile: LabelProfile, ks: tuple[int, ...], count: int) -> Replicates:
    """By how much the sums of coverage and macro-F1 differ from those of the sample, in each replicate, over labels all
    of whose pairs are here."""
    result = no_deviations(profile, ks, count)
    if not count or not len(pairs):
        return result
    pairs = pairs[np.argsort(pairs["row_key"])]
    kinds = 2 * len(ks) + 1
    labels, place = np.unique(pairs["label"], return_inverse=True)
    number, losses = _losses(
        np.bincount(place * kinds + pairs["kind"], minlength=len(labels) * kinds).reshape(-1, kinds), ks
    )
    seen = profile.take(np.searchsorted(profile.labels, labels))
    for some in _chunks(pairs["row_key"]):
        own, loss = place[some], losses[number[place[some], pairs["kind"][some]]]
        keys, row = np.unique(pairs["row_key"][some], return_inverse=True)
        columns = [
            _by_bin(division.of_label[own], len(division.names), row, len(keys), loss)
            for division in seen.divisions
        ]
        weights = poisson_weights(keys, count).astype(np.float64) - 1.0
        _add(result.values, np.concatenate(columns, axis=1), weights)
    return result


def with_sample(deviations: Replicates, sums: MetricSums) -> Replicates:
    """Replicates from their deviations, and the sums of the sample itself."""
    places = [sums.metrics.index(metric) for metric in deviations.metrics if metric in sums.metrics]
    metrics = tuple(sums.metrics[place] for place in places)
    own = [deviations.metrics.index(metric) for metric in metrics]
    values = deviations.values[own] + sums.values[places][..., (SUM_X, SUM_Y), None]
    return Replicates(metrics, values)


def _losses(counts: np.ndarray, ks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """What would be lost if one pair were not there, by the number of pairs of each label and kind [labels, kinds]: a
    number for each of these that has any, and by that number, int32 [numbers, 1 + 2 ks], the losses of coverage's y, of
    coverage's x at each k and of macro-F1's x at each k."""
    hits = np.cumsum(counts[:, 1::2], axis=1)  # [labels, steps]
    actual = (hits[:, -1] + counts[:, -1])[:, None]
    predicted = np.cumsum(counts[:, :-1:2], axis=1) + hits
    order = np.argsort(ks, kind="stable")  # which k each step is
    there = counts > 0
    number = np.cumsum(there).reshape(counts.shape) - 1
    losses = np.empty((np.count_nonzero(there), 1 + 2 * len(ks)), np.int32)
    for kind in range(counts.shape[1]):
        own = there[:, kind]
        h, a, p, at = hits[own], actual[own], predicted[own], number[own, kind]
        true = int(kind % 2 == 1 or kind == counts.shape[1] - 1)
        said = (np.arange(len(ks)) >= kind // 2).astype(np.int64)  # the steps that count this prediction
        hit = said * (kind % 2)
        losses[at, 0] = true * (a[:, 0] == 1)
        losses[at[:, None], 1 + order] = hit * (h == 1)
        losses[at[:, None], 1 + len(ks) + order] = _f1(h, a, p) - _f1(h - hit, a - true, p - said)
    return number, losses


def _f1(hits: np.ndarray, actual: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return on_grid(2 * hits / np.maximum(actual + predicted, 1))


def _chunks(row_keys: np.ndarray) -> Iterator[slice]:
    """Pairs that are weighed together, by their rows' keys (increasing): bounded in rows and in pairs, unless one row
    alone has more."""
    starts = np.flatnonzero(np.concatenate(([True], row_keys[1:] != row_keys[:-1])))
    ends = np.append(starts[1:], len(row_keys))
    first = 0
    while first < len(starts):
        fits = int(np.searchsorted(ends, starts[first] + _MOST_PAIRS, side="right"))
        last = min(max(fits, first + 1), first + _MOST_ROWS)
        yield slice(int(starts[first]), int(ends[min(last, len(ends)) - 1]))
        first = last


def _by_bin(bin_of: np.ndarray, n_bins: int, row: np.ndarray, n_rows: int, values: np.ndarray) -> np.ndarray:
    """float64 [columns of values, bins, rows]: the values of the pairs of each bin and row, added up."""
    cell = bin_of.astype(np.int64) * n_rows + row
    added = [np.bincount(cell, column, n_bins * n_rows) for column in values.T]
    return np.array(added).reshape(values.shape[1], n_bins, n_rows)


def _add(out: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> None:
    """Adds [1 + 2 ks, bins, rows], weighed, to sums [metrics, ks, bins, 2, replicates]."""
    n_ks = out.shape[1]
    sums = (columns.reshape(-1, columns.shape[2]) @ weights).astype(np.int64)
    sums = sums.reshape(*columns.shape[:2], -1)
    out[_COVERAGE, :, :, Y] += sums[0]
    out[_COVERAGE, :, :, X] += sums[1 : 1 + n_ks]
    out[_MACRO_F1, :, :, X] += sums[1 + n_ks :]
