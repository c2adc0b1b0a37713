"""The metrics a third time, as pyxclib computes them: flags of hits [rows, k] cumulated along the ranks, means over
rows. Nothing is imported from it; with the loops of slow_reference this is a second opinion of another build."""

import numpy as np


def flags(predictions, Y, k):
    """Hits at each rank, and the labels there (one past the last label for none), [rows, k]."""
    true = np.pad(Y.toarray() > 0, ((0, 0), (0, 1)))
    labels = np.full((len(true), k), Y.shape[1])
    width = min(k, predictions.k)
    labels[:, :width] = np.where(
        predictions.labels[:, :width] >= 0, predictions.labels[:, :width], Y.shape[1]
    )
    return np.take_along_axis(true, labels, axis=1).astype(float), labels


def matrix_measures(predictions, Y, inverse, k):
    """P, R, nDCG, PSP, PSnDCG at 1..k and coverage, micro-F1, macro-F1 at k. Every row must have a true label."""
    hit, labels = flags(predictions, Y, k)
    true = Y.toarray() > 0
    weight = np.append(inverse, 0.0)
    gained = hit * weight[labels]
    best = -np.sort(-(true * inverse), axis=1)[:, :k]
    best = np.pad(best, ((0, 0), (0, k - best.shape[1])))
    ranks, discount = np.arange(1, k + 1), 1 / np.log2(np.arange(2, k + 2))
    n_true = true.sum(axis=1)
    ideal = np.cumsum(discount)[np.minimum(n_true[:, None], ranks) - 1]
    return {
        "P": (hit.cumsum(axis=1) / ranks).mean(axis=0),
        "R": (hit.cumsum(axis=1) / n_true[:, None]).mean(axis=0),
        "nDCG": ((hit * discount).cumsum(axis=1) / ideal).mean(axis=0),
        "PSP": (gained.cumsum(axis=1) / ranks).mean(axis=0) / (best.cumsum(axis=1) / ranks).mean(axis=0),
        "PSnDCG": ((gained * discount).cumsum(axis=1) / ideal).mean(axis=0)
        / ((best * discount).cumsum(axis=1) / ideal).mean(axis=0),
        **label_measures(hit, labels, true),
    }


def label_measures(hit, labels, true):
    """At each k."""
    n_labels, found = true.shape[1], {"coverage": [], "macro-F1": [], "micro-F1": []}
    for k in range(1, hit.shape[1] + 1):
        hits = np.bincount(labels[:, :k].ravel(), hit[:, :k].ravel(), n_labels + 1)[:n_labels]
        said = np.bincount(labels[:, :k].ravel(), minlength=n_labels + 1)[:n_labels]
        actual = true.sum(axis=0)
        with np.errstate(invalid="ignore"):
            f1 = np.nan_to_num(2 * hits / (said + actual))
        found["coverage"].append((hits > 0).sum() / (actual > 0).sum())
        found["macro-F1"].append(f1.mean())
        found["micro-F1"].append(2 * hits.sum() / (said + actual).sum())
    return found
