"""GLaS's regulariser for the torch methods (paper 5, eq. 1.8 and 1.9; Guo et al. 2019): inner products of label vectors
should be the shares in which the labels occur together. It is taken over the label rows that a batch gathers, or some
of them, as if these were all labels, so that its cost does not follow their number."""

from __future__ import annotations

import numpy as np
import torch

from xmcspark.errors import InputError
from xmcspark.labels.cooccurrence import Neighbours

_MOST = 512  # labels of a batch that are compared with each other


def glas_targets(graph: Neighbours, labels: np.ndarray) -> np.ndarray:
    """float32 [labels, labels]: S_ij = (P[i | j] + P[j | i]) / 2 of some labels (increasing ids), 1 for a label and
    itself (paper 5, eq. 1.9). A pair that neither label keeps as a neighbour has 0, as have labels never seen."""
    if np.any(np.diff(labels) <= 0):
        raise InputError("the labels of a batch must be increasing, each once: sort them")
    place = np.minimum(np.searchsorted(graph.labels, labels), max(0, len(graph.labels) - 1))
    known = graph.labels[place] == labels if len(graph.labels) else np.zeros(len(labels), bool)
    counts, own = np.zeros((len(labels), len(labels))), np.ones(len(labels))
    own[known] = graph.own[place[known]]
    starts, lengths = graph.indptr[place[known]], np.diff(graph.indptr)[place[known]]
    row = np.repeat(np.flatnonzero(known), lengths)
    at = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(starts, lengths)
    neighbour = graph.neighbours[at]
    column = np.minimum(np.searchsorted(labels, neighbour), len(labels) - 1)
    inside = labels[column] == neighbour
    counts[row[inside], column[inside]] = graph.counts[at[inside]]
    counts = np.maximum(
        counts, counts.T
    )  # a list of neighbours is cut: one of the two may have lost the other
    shares = 0.5 * (counts / own[:, None] + counts / own[None, :])
    np.fill_diagonal(shares, 1.0)
    return shares.astype(np.float32)


def batch_penalty(
    graph: Neighbours, labels: np.ndarray, weights: torch.Tensor, drawn: np.ndarray
) -> torch.Tensor:
    """R_GLaS of the labels of a batch (increasing ids), or of some of them: it costs their number squared. `drawn`
    [labels]: random numbers of this step; those with the lowest are taken."""
    some = np.sort(np.argsort(drawn, kind="stable")[:_MOST])
    targets = torch.from_numpy(glas_targets(graph, labels[some])).to(weights.device)
    return glas_penalty(weights[torch.from_numpy(some).to(weights.device)], targets)


def glas_penalty(weights: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """R_GLaS (paper 5, eq. 1.8): the mean over pairs of labels of (⟨w_i, w_j⟩ - S_ij)²."""
    return (weights.float() @ weights.float().T - targets).square().mean()
