"""The metrics once more, written out from their formulas with loops and sets: what the fast ones are held to.

Formulas as in pyxclib (xc_metrics) and napkinXC (measures); nothing is imported from either.
"""

from math import exp, log, log2

import numpy as np
import scipy.sparse as sp

from xmcspark.matchers.predictions import Predictions


def random_case(seed, rows=40, n_labels=30, k=8, empty_rows=True, relevance=True):
    """Predictions (some rows short, some empty) and true labels (some rows without any)."""
    rng = np.random.default_rng(seed)
    labels = np.full((rows, k), -1, np.int32)
    scores = np.full((rows, k), -np.inf, np.float32)
    for i in range(rows):
        n = int(rng.integers(0 if empty_rows else 1, min(k, n_labels) + 1))
        labels[i, :n] = rng.permutation(n_labels)[:n]
        scores[i, :n] = -np.sort(-rng.random(n))
    Y = (rng.random((rows, n_labels)) < 0.1) * rng.integers(1, 9 if relevance else 2, (rows, n_labels))
    if not empty_rows:
        Y[np.arange(rows), rng.integers(0, n_labels, rows)] = 1
    return Predictions(labels, scores), sp.csr_matrix(Y.astype(np.float32))


def lists(predictions, Y):
    """(ranked labels, {true label: relevance}) of each row."""
    dense = Y.toarray()
    for i, row in enumerate(predictions.labels):
        yield [int(x) for x in row if x >= 0], {int(j): float(dense[i, j]) for j in np.flatnonzero(dense[i])}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def precision(predictions, Y, k, labels=None):
    return mean(
        sum(p in t and (labels is None or p in labels) for p in ps[:k]) / k for ps, t in lists(predictions, Y)
    )


def recall(predictions, Y, k, labels=None):
    def only(t):
        return [j for j in t if labels is None or j in labels]

    return mean(
        sum(j in ps[:k] for j in only(t)) / len(only(t)) for ps, t in lists(predictions, Y) if only(t)
    )


def weighted_recall(predictions, Y, k, labels=None):
    def only(t):
        return {j: r for j, r in t.items() if labels is None or j in labels}

    return mean(
        sum(r for j, r in only(t).items() if j in ps[:k]) / sum(only(t).values())
        for ps, t in lists(predictions, Y)
        if only(t)
    )


def ideal(n, k):
    return sum(1 / log2(i + 2) for i in range(min(n, k)))


def ndcg(predictions, Y, k, labels=None):
    def gain(ps, t):
        return sum(
            1 / log2(i + 2) for i, p in enumerate(ps[:k]) if p in t and (labels is None or p in labels)
        )

    return mean(gain(ps, t) / ideal(len(t), k) if t else 0.0 for ps, t in lists(predictions, Y))


def inverse_propensity(counts, n, A, B):
    C = (log(n) - 1) * (B + 1) ** A
    return [1 / (1 / (1 + C * exp(-A * log(c + B)))) for c in counts]


def psp(predictions, Y, inverse, k, labels=None):
    got = best = 0.0
    for ps, t in lists(predictions, Y):
        got += sum(inverse[p] for p in ps[:k] if p in t and (labels is None or p in labels)) / k
        best += sum(sorted((inverse[j] for j in t), reverse=True)[:k]) / k
    return got / best


def psndcg(predictions, Y, inverse, k, labels=None):
    got = best = 0.0
    for ps, t in lists(predictions, Y):
        if not t:
            continue
        norm = ideal(len(t), k)
        for i, p in enumerate(ps[:k]):
            if p in t and (labels is None or p in labels):
                got += inverse[p] / log2(i + 2) / norm
        for i, weight in enumerate(sorted((inverse[j] for j in t), reverse=True)[:k]):
            best += weight / log2(i + 2) / norm
    return got / best


def label_tables(predictions, Y, k):
    n = Y.shape[1]
    hits, predicted, actual = [0] * n, [0] * n, [0] * n
    for ps, t in lists(predictions, Y):
        for p in ps[:k]:
            predicted[p] += 1
            hits[p] += p in t
        for j in t:
            actual[j] += 1
    return hits, predicted, actual


def coverage(predictions, Y, k, labels=None):
    hits, _, actual = label_tables(predictions, Y, k)
    chosen = range(Y.shape[1]) if labels is None else labels
    true = [j for j in chosen if actual[j]]
    return sum(hits[j] > 0 for j in true) / len(true) if true else float("nan")


def macro_f1(predictions, Y, k, labels=None):
    hits, predicted, actual = label_tables(predictions, Y, k)
    chosen = range(Y.shape[1]) if labels is None else labels
    return mean(2 * hits[j] / (predicted[j] + actual[j]) if predicted[j] + actual[j] else 0.0 for j in chosen)


def micro_f1(predictions, Y, k, labels=None):
    hits, predicted, actual = label_tables(predictions, Y, k)
    chosen = range(Y.shape[1]) if labels is None else labels
    either = sum(predicted[j] + actual[j] for j in chosen)
    return 2 * sum(hits[j] for j in chosen) / either if either else float("nan")
