"""Prediction with a model in parts: every row is searched down to its best leaf clusters, each leaf scores its own
labels wherever its matchers are, and the parts are merged. Gives the same bits as `Searcher.predict`: a path's
score is a float32 sum from the root on, so the last term may be added elsewhere, and only the merged ranking is
turned back into products."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark._native.search import PackedModel
from xmcspark.errors import InputError
from xmcspark.matchers.exclusion import holds
from xmcspark.matchers.files import open_model, take_array
from xmcspark.matchers.portable_math import exact_exp
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import PackedLevel, Searcher
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.label_tree import LabelTree

_MOST_LEAVES = 1 << 16  # kept open at a time
_SPARE = 4  # labels looked at beyond those needed


@dataclass(frozen=True)
class Pieces:
    """Rankings of parts of the labels: line i is one of row[i]. Their scores are sums, not yet products."""

    row: np.ndarray  # int64
    ranked: Predictions


@dataclass(frozen=True)
class Pairs:
    """Leaves to be scored, entry by entry."""

    row: np.ndarray  # int64
    member: np.ndarray  # int32
    leaf: np.ndarray  # int32
    above: np.ndarray  # float32: score of the path to the leaf, as it counts for its labels


class SplitModel:
    """One member, opened so that only the leaves asked for are read."""

    def __init__(self, folder: Path, scoring: Scoring) -> None:
        header, arrays = open_model(folder, "packed tree model")
        self.depth, self.n_features, self.width = header.depth, header.n_features, header.width
        self.scoring = scoring
        self._sums = _as_sums(scoring)
        self._levels = tuple(PackedLevel.opened(folder, arrays, t, header.width) for t in range(self.depth))
        self._child_ptr = tuple(take_array(folder, arrays, f"tree.{t}") for t in range(self.depth))
        self._labels = take_array(folder, arrays, "tree.labels")
        self._leaves: dict[int, PackedModel] = {}
        self._upper = self._open_upper()

    @property
    def n_labels(self) -> int:
        return len(self._labels)

    @property
    def n_leaves(self) -> int:
        return len(self._child_ptr[-1]) - 1

    def best_leaves(self, X: Csr, beam: int, threads: int = 1) -> Predictions:
        """The leaf clusters that beam search opens for each row, with the scores of their paths as they count for the
        labels below."""
        if self._upper is None:  # the root is the only leaf
            return Predictions(np.zeros((X.shape[0], 1), np.int32), np.zeros((X.shape[0], 1), np.float32))
        best = self._upper.predict(X, beam=beam, top_k=beam, threads=threads)
        there, weight = best.labels >= 0, np.float32(self.scoring.path_weight)
        np.multiply(best.scores, weight, out=best.scores, where=there)
        return best

    def leaf_labels(self, leaf: int, X: Csr, above: np.ndarray, excluded: Csr, top_k: int) -> Predictions:
        """The best labels of one leaf for rows that reach it with path scores `above`; scores are sums."""
        opened, size = self._leaf(leaf)
        few = min(size, top_k + int(np.diff(excluded.indptr).max(initial=0)) + _SPARE)
        best, lowest = _ranked(opened, X, above, excluded, few, top_k)
        if few == size:
            return best
        # Labels that differ before `above` is added may be equal after, and then ids decide: where one left out
        # might tie with the last one taken, look at all.
        unsure = np.flatnonzero(best.scores[:, -1] <= lowest)
        if len(unsure):
            rows = take_rows(X, unsure), above[unsure], take_rows(excluded, unsure)
            whole, _ = _ranked(opened, *rows, size, top_k)
            best.labels[unsure], best.scores[unsure] = whole.labels, whole.scores
        return best

    def final(self, pieces: Pieces, n_rows: int, top_k: int) -> Predictions:
        """The ranking of each row from all of its pieces, as `Searcher.predict` gives it."""
        merged = merge(pieces, n_rows, min(top_k, self.n_labels))
        if self.scoring.combine != "product":
            return merged
        there = merged.labels >= 0
        products = exact_exp(np.where(there, merged.scores, 0.0)).astype(np.float32)
        return Predictions(merged.labels, np.where(there, products, np.float32(-np.inf)))

    def _open_upper(self) -> Searcher | None:
        if self.depth == 1:
            return None
        tree = LabelTree(self._child_ptr[:-1], np.arange(self.n_leaves, dtype=np.int32))
        return Searcher(tree, self._levels[:-1], self.n_features, self._sums, self.width)

    def _leaf(self, leaf: int) -> tuple[PackedModel, int]:
        """One leaf as a tree of its own, and the number of its labels."""
        first, last = int(self._child_ptr[-1][leaf]), int(self._child_ptr[-1][leaf + 1])
        if leaf not in self._leaves:
            if len(self._leaves) >= _MOST_LEAVES:
                self._leaves.clear()
            level = self._levels[-1]
            slots = slice(int(level.slot_ptr[leaf]), int(level.slot_ptr[leaf + 1]))
            entries = slice(int(level.entry_ptr[leaf]), int(level.entry_ptr[leaf + 1]))
            if (
                slots.stop <= slots.start
                or slots.stop > len(level.slots)
                or entries.stop > len(level.entries)
            ):
                raise InputError(f"leaf {leaf} of the packed model is damaged: copy or save it again")
            arrays = (
                np.array([0, last - first]),
                np.array([0, slots.stop - slots.start]),
                np.array([0, entries.stop - entries.start]),
                level.slots[slots],
                level.entries[entries],
                level.bias[first:last],
                None if level.dense is None else level.dense[first * self.width : last * self.width],
            )
            self._leaves[leaf] = PackedModel(
                [arrays], self.width, self._labels[first:last], *self._sums.kernel_form
            )
        return self._leaves[leaf], last - first


def _ranked(
    leaf: PackedModel, X: Csr, above: np.ndarray, excluded: Csr, taken: int, top_k: int
) -> tuple[Predictions, np.ndarray]:
    """(the best of a leaf's `taken` best labels that are not excluded, the lowest score taken in each row)"""
    labels, scores = leaf.search(X, 1, taken, 1)
    scores += above[:, None]
    lowest = scores[:, -1].copy()
    dropped = holds(excluded, labels)
    labels[dropped], scores[dropped] = -1, -np.inf
    return Predictions.ranked(labels, scores, top_k), lowest


def score_pairs(
    models: list[SplitModel], X: Csr, excluded: Csr, pairs: Pairs, top_k: int
) -> list[Predictions]:
    """For each member, the best labels of each row among those of the leaves that the pairs name."""
    order = np.lexsort((pairs.leaf, pairs.member))
    change = (np.diff(pairs.member[order]) != 0) | (np.diff(pairs.leaf[order]) != 0)
    rows: list[list[np.ndarray]] = [[] for _ in models]
    found: list[list[Predictions]] = [[] for _ in models]
    for group in np.split(order, np.flatnonzero(change) + 1) if len(order) else []:
        member, own = int(pairs.member[group[0]]), pairs.row[group]
        best = models[member].leaf_labels(
            int(pairs.leaf[group[0]]), take_rows(X, own), pairs.above[group], take_rows(excluded, own), top_k
        )
        rows[member].append(own)
        found[member].append(_padded(best, top_k))
    return [
        merge(joined_pieces(own, best, top_k), X.shape[0], top_k)
        for own, best in zip(rows, found, strict=True)
    ]


def joined_pieces(rows: list[np.ndarray], ranked: list[Predictions], top_k: int) -> Pieces:
    """Pieces from several places, all `top_k` wide."""
    none = np.empty((0, top_k), np.float32)
    labels = np.concatenate([none.astype(np.int32), *(part.labels for part in ranked)])
    scores = np.concatenate([none, *(part.scores for part in ranked)])
    return Pieces(np.concatenate([np.empty(0, np.int64), *rows]), Predictions(labels, scores))


def merge(pieces: Pieces, n_rows: int, top_k: int) -> Predictions:
    """The `top_k` best of the pieces of each row, by score, then label id."""
    order = np.argsort(pieces.row, kind="stable")
    row = pieces.row[order]
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(n_rows))[row]
    shape = n_rows, int(place.max(initial=0)) + 1, pieces.ranked.k
    labels, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    labels[row, place], scores[row, place] = pieces.ranked.labels[order], pieces.ranked.scores[order]
    best = Predictions.ranked(labels.reshape(n_rows, -1), scores.reshape(n_rows, -1), top_k)
    return _padded(best, top_k)


def _padded(best: Predictions, width: int) -> Predictions:
    """A ranking filled up to a width."""
    missing = (0, 0), (0, width - best.k)
    return Predictions(
        np.pad(best.labels, missing, constant_values=-1),
        np.pad(best.scores, missing, constant_values=-np.inf),
    )


def _as_sums(scoring: Scoring) -> Scoring:
    """The scores of paths that search works with: sums, in which all nodes count alike."""
    if scoring.combine != "product":
        return Scoring(scoring.transform, scoring.combine)
    name = scoring.transform if scoring.transform.startswith("log-") else f"log-{scoring.transform}"
    return Scoring(name, "sum")
