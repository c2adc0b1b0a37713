"""What a label's text should be answered with: the labels that occur together with it, as soft targets (paper 5, eq.
1.6), the label alone, or GLaS's targets (eq. 1.9). `gandalf_rows` makes them from a label matrix, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.cooccurrence import (
    Neighbours,
    alone,
    capped_labels,
    counted_neighbours,
    joined_neighbours,
)
from xmcspark.labels.label_sampling import LabelSample
from xmcspark.labels.random_walk import walked
from xmcspark.matchers.portable_math import exact_exp
from xmcspark.matchers.targets import nonzero
from xmcspark.sparse.csr import Csr, as_csr


@dataclass(frozen=True)
class SoftTargets:
    """For each label, the labels that its text should be answered with; none with more than itself."""

    labels: np.ndarray  # int32, increasing
    indptr: np.ndarray  # int64[len(labels) + 1]
    indices: np.ndarray  # int32, increasing in each row
    targets: np.ndarray  # float32 in (0, 1]

    def to_csr(self, n_labels: int) -> Csr:
        """One row for each of `labels`, one column for each of all labels."""
        return Csr(self.indptr, self.indices, self.targets, (len(self.labels), n_labels))


def soft_targets(
    rows: Neighbours, settings: AugmentSettings, own_counts: np.ndarray | None = None
) -> SoftTargets:
    """Targets of the labels of `rows`, by `settings.targets`. A label is always among its own, and of a pair that
    occurred less often than `min_count` there is none.

    gandalf: G_ij / G_jj where that is strictly above delta, itself with 1. self: no others. glas: σ(S_ij) where S_ij is
    strictly above delta, itself with σ(1); σ is never below one half, so a pair that is not kept has 0, not σ(0). It
    needs `own_counts`, the G_ii of all labels that occur with others, by id.
    """
    itself = rows.itself
    strength = rows.ratio
    if settings.targets == "glas":
        strength = 0.5 * (strength + _reverse_ratio(rows, own_counts))
    together = (strength > settings.delta) & (rows.counts >= settings.min_count)
    kept = itself | (together & (settings.targets != "self"))
    values = _sigmoid(strength) if settings.targets == "glas" else strength
    targets = values.astype(np.float32)[kept]
    indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[rows.indptr]
    return SoftTargets(rows.labels, indptr, rows.neighbours[kept], targets)


def gandalf_rows(
    Y: Any,
    settings: AugmentSettings | None = None,
    *,
    row_keys: Any = None,
    seed: int = 0,
    threads: int = 1,
    **changes: Any,
) -> tuple[np.ndarray, sp.csr_matrix]:
    """(label ids, soft targets [ids, labels]): the instances that label texts become (Gandalf, paper 5).

    >>> ids, targets = gandalf_rows(Y, delta=0.1)
    >>> X_union = sp.vstack([X, tfidf.transform([label_texts[i] for i in ids])])
    >>> Y_union = sp.vstack([Y, targets])
    >>> model = train_matchers(X_union, Y_union, tree)

    Y: instances x labels; what is not zero is a label. `settings` choose targets, graph, delta, caps and share;
    `changes` override single ones. `row_keys`: int64, by which rows with more than `max_labels` labels choose (default
    0, 1, ...). A label that no instance has gets itself alone.
    """
    chosen = replace(settings or AugmentSettings(), **changes)
    positives = nonzero(as_csr(Y, "Y"))
    keys = np.arange(positives.shape[0]) if row_keys is None else np.asarray(row_keys, np.int64)
    made = label_rows(positives, keys, chosen, seed, threads)
    return made.labels, made.to_csr(positives.shape[1]).to_scipy()


def label_rows(
    Y: Csr, row_keys: np.ndarray, settings: AugmentSettings, seed: int, threads: int = 1
) -> SoftTargets:
    """The soft targets of the labels that are taken, all from the labels Y of all instances."""
    capped, _, _ = capped_labels(Y, row_keys, settings.max_labels, seed)
    graph, _ = counted_neighbours(capped, settings.max_neighbours, threads)
    positives = np.bincount(Y.indices, minlength=Y.shape[1])
    own = np.zeros(Y.shape[1], np.int64)
    own[graph.labels] = graph.own
    everyone = np.arange(Y.shape[1], dtype=np.int32)
    taken = LabelSample.of(positives, settings, seed).takes(everyone, positives)
    rows = graph.take(np.flatnonzero(taken[graph.labels]))
    if settings.graph == "random-walk":
        rows = walked(graph, rows.labels, settings.restart, settings.walk_length, seed)
        rows, _ = rows.largest(settings.max_neighbours)
    return soft_targets(joined_neighbours([rows, alone(everyone[taken & (own == 0)])]), settings, own)


def _reverse_ratio(rows: Neighbours, own_counts: np.ndarray | None) -> np.ndarray:
    """P[j | i] = G_ij / G_ii of each entry (paper 5, the other half of eq. 1.9)."""
    if own_counts is None:
        raise InputError("targets glas need the count of every label: give own_counts, by label id")
    largest = int(rows.neighbours.max(initial=-1))
    if largest >= len(own_counts):
        raise InputError(f"own_counts has {len(own_counts)} labels, but label {largest} occurs: give all")
    own = np.where(rows.itself, rows.counts, own_counts[rows.neighbours])
    if (own < rows.counts).any():
        label = rows.neighbours[int(np.argmax(own < rows.counts))]
        raise InputError(
            f"own_counts has fewer for label {label} than it has with another: they must be of the same counting"
        )
    reverse: np.ndarray = rows.counts / own
    return reverse


def _sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1.0 / (1.0 + exact_exp(-x))
    return result
