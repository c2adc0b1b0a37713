"""The losses of UniDEC over a pool of labels (paper 5, sections 2.3 and 2.4.2): what a positive pair costs by itself
(decoupled softmax, SupCon, InfoNCE, triplet), how pairs are reduced to one number (some, one or all labels of a query),
and both directions, from queries to labels and back. Binary cross-entropy stands beside them for the classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

UNLIKE = -1e4  # a similarity that counts for nothing at any temperature: no negative, either
_NOTHING = -1e9  # a score that no sum of exponentials notices; unlike -inf it has gradients of 0, not NaN


@dataclass(frozen=True)
class Pairs:
    """The positive cells of scores [queries, labels]: P^B of every query, one entry each (paper 5, section 2.3.1)."""

    row: Tensor  # int64: the query
    column: Tensor  # int64: place of the label in the pool
    target: Tensor  # float32, above 0, at most 1
    one_of_row: Tensor  # bool: the single positive that stands for its query where only one does
    one_of_column: Tensor  # bool: the single query that stands for its label

    def flipped(self) -> Pairs:
        """The same cells of the transposed scores: P^L of every label."""
        return Pairs(self.column, self.row, self.target, self.one_of_column, self.one_of_row)


def decoupled_softmax(scores: Tensor, pairs: Pairs) -> Tensor:
    """Of each pair -log(exp(s_p) / (exp(s_p) + Σ exp(s_n))) over the negatives n of its row: other positives do not
    compete (Gupta et al. 2023)."""
    negatives = _without_positives(scores, pairs).logsumexp(dim=1)
    return functional.softplus(_by_pair(negatives, pairs) - scores[pairs.row, pairs.column])


def supcon(scores: Tensor, pairs: Pairs) -> Tensor:
    """Of each pair -log softmax over its whole row, other positives included (Khosla et al. 2020)."""
    return _by_pair(scores.logsumexp(dim=1), pairs) - scores[pairs.row, pairs.column]


def triplet(scores: Tensor, pairs: Pairs, margin: float, hardest: int) -> Tensor:
    """Of each pair the mean of max(0, s_n - s_p + margin) over the highest negatives n of its row, as NGAME has it."""
    negatives = _without_positives(scores, pairs)
    found = _by_pair(negatives.topk(min(hardest, scores.shape[1]), dim=1).values, pairs)
    wrong = torch.relu(found - scores[pairs.row, pairs.column, None] + margin)
    return wrong.sum(dim=1) / (found > UNLIKE).sum(dim=1).clamp(min=1)


def binary_cross_entropy(scores: Tensor, pairs: Pairs, row_weights: Tensor | None = None) -> Tensor:
    """y · log(1 + exp(-s)) + (1 - y) · log(1 + exp(s)), added up over the pool, as a mean of queries."""
    scores = scores.float()
    positives = pairs.target * scores[pairs.row, pairs.column]
    rows = functional.softplus(scores).sum(dim=1).index_add(0, pairs.row, -positives)
    weights = torch.ones_like(rows) if row_weights is None else row_weights
    return (weights * rows).sum() / weights.sum()


def _by_pair(rows: Tensor, pairs: Pairs) -> Tensor:
    """What each pair's row has. Not by indexing, whose gradients several threads add up in any order."""
    return rows.index_select(0, pairs.row)


def _without_positives(scores: Tensor, pairs: Pairs) -> Tensor:
    positive = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    positive[pairs.row, pairs.column] = True
    return scores.masked_fill(positive, _NOTHING)


@dataclass(frozen=True)
class PoolLoss:
    """The loss of one head: what pairs cost, how they are reduced, and how the two directions are weighed."""

    kind: str  # decoupled-softmax, supcon, infonce or triplet
    one_positive: bool  # pick one label instead of all that are in the pool
    query_share: float  # λ_D, λ_C: weight of queries → labels; 1 leaves labels → queries out
    margin: float = 0.3  # of triplet
    hardest: int = 5  # negatives of triplet

    def __call__(
        self,
        similarity: Tensor,
        pairs: Pairs,
        temperature: Tensor | float = 1.0,
        row_weights: Tensor | None = None,
    ) -> Tensor:
        """λ · queries → labels + (1 - λ) · labels → queries, from inner products [queries, labels].

        `row_weights`: how much each query counts; 1 each if None. Triplet knows no temperature.
        """
        similarity = similarity.float()
        scores = similarity if self.kind == "triplet" else similarity / temperature
        total = scores.new_zeros(())
        if self.query_share > 0:
            total = total + self.query_share * self._one_way(scores, pairs, row_weights, None)
        if self.query_share < 1:
            back = self._one_way(scores.T, pairs.flipped(), None, row_weights)
            total = total + (1 - self.query_share) * back
        return total

    def _one_way(
        self, scores: Tensor, pairs: Pairs, row_weights: Tensor | None, column_weights: Tensor | None
    ) -> Tensor:
        """The mean over rows that have a positive of the mean of their pairs' costs, weighed by target (PSL, paper 5,
        section 2.3.1). Rows without one, such as labels that no query of the batch has, are skipped."""
        if not len(pairs.row):
            return scores.sum() * 0
        weight = pairs.target
        if (
            self.one_positive or self.kind == "infonce"
        ):  # InfoNCE is about one positive: all others are negatives
            weight = weight * pairs.one_of_row
        if column_weights is not None:
            weight = weight * column_weights[pairs.column]
        nothing = scores.new_zeros(len(scores))
        share = nothing.index_add(0, pairs.row, weight)
        summed = nothing.index_add(0, pairs.row, weight * self._cost()(scores, pairs))
        counts = (share > 0).float() if row_weights is None else (share > 0) * row_weights
        means = summed / torch.where(share > 0, share, 1.0)
        return (counts * means).sum() / counts.sum().clamp(min=torch.finfo(torch.float32).tiny)

    def _cost(self) -> Callable[[Tensor, Pairs], Tensor]:
        if self.kind == "triplet":
            return lambda scores, pairs: triplet(scores, pairs, self.margin, self.hardest)
        return decoupled_softmax if self.kind == "decoupled-softmax" else supcon
