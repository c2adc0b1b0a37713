"""The trained model: a label tree, one linear matcher per child of each node, and how paths are scored.

It exists in two forms: matchers as sparse rows, to inspect and to start the next training from, and packed for
search. Both are flat arrays, saved as .npy and memory-mapped when opened."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark._native.search import PackedModel, pack
from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.targets import by_position
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.tree.label_tree import LabelTree

FORMAT = 1


@dataclass(frozen=True)
class Matchers:
    """The matchers of one level: row c of `weights` and `bias[c]` score child c."""

    weights: Csr
    bias: np.ndarray


@dataclass(frozen=True)
class PackedLevel:
    """One level packed for search; see native/packed.h."""

    slot_ptr: np.ndarray
    entry_ptr: np.ndarray
    slots: np.ndarray
    entries: np.ndarray
    bias: np.ndarray

    @staticmethod
    def of(matchers: Matchers, child_ptr: np.ndarray) -> PackedLevel:
        return PackedLevel(*pack(matchers.weights, child_ptr), matchers.bias)


class Searcher:
    """Finds the best labels of queries; see `TreeModel.searcher` and `load_searcher`."""

    def __init__(self, tree: LabelTree, levels: tuple[PackedLevel, ...], n_features: int, scoring: Scoring):
        self.tree, self.levels, self.n_features, self.scoring = tree, levels, n_features, scoring
        self._packed = PackedModel(
            [
                (ptr, level.slot_ptr, level.entry_ptr, level.slots, level.entries, level.bias)
                for ptr, level in zip(tree.child_ptr, levels, strict=True)
            ],
            tree.labels,
            *scoring.kernel_form,
        )

    def predict(self, X: Any, *, beam: int = 10, top_k: int = 10, threads: int = 1) -> Predictions:
        """The `top_k` best labels of each row of X, through at most `beam` nodes a level.

        Rows without features get the labels that their biases favour; `top_k` above the number of labels
        is cut to it.
        """
        X = as_csr(X, "X", cols=self.n_features)
        beam, top_k = _check_sizes(beam, top_k, self.tree.n_labels)
        return Predictions(*self._packed.search(X, beam, top_k, threads))

    def predict_one(self, features: np.ndarray, values: np.ndarray, *, beam: int = 10, top_k: int = 10) -> Predictions:
        """As `predict` for one query, given as increasing int32 features and float32 values: no overhead."""
        if len(features) != len(values) or (len(features) and not 0 <= features[0] <= features[-1] < self.n_features):
            raise InputError(
                f"a query needs as many values as features, features increasing and below {self.n_features}"
            )
        beam, top_k = _check_sizes(beam, top_k, self.tree.n_labels)
        labels, scores = self._packed.search_one(features, values, beam, top_k)
        return Predictions(labels[None], scores[None])

    def score(self, X: Any, candidates: Any, *, threads: int = 1) -> Csr:
        """The scores of given labels only: `candidates` is instances x labels, its non-zero pattern says which."""
        X = as_csr(X, "X", cols=self.n_features)
        wanted = as_csr(candidates, "candidates", rows=X.shape[0], cols=self.tree.n_labels)
        positions = by_position(wanted, self.tree)
        scores = self._packed.score_pairs(X, positions, threads)
        placed = Csr(positions.indptr, self.tree.labels[positions.indices], scores, wanted.shape).to_scipy()
        placed.has_sorted_indices = False
        placed.sort_indices()
        return Csr(wanted.indptr, placed.indices.astype(np.int32, copy=False), placed.data, wanted.shape)


def _check_sizes(beam: int, top_k: int, n_labels: int) -> tuple[int, int]:
    if beam < 1 or top_k < 1:
        raise InputError(f"beam ({beam}) and top_k ({top_k}) must be at least 1")
    return beam, min(top_k, n_labels)


@dataclass(frozen=True)
class TreeModel:
    """A label tree with its matchers, level by level from the root."""

    tree: LabelTree
    matchers: tuple[Matchers, ...]
    n_features: int
    scoring: Scoring = Scoring()

    @cached_property
    def searcher(self) -> Searcher:
        levels = tuple(PackedLevel.of(m, ptr) for m, ptr in zip(self.matchers, self.tree.child_ptr, strict=True))
        return Searcher(self.tree, levels, self.n_features, self.scoring)

    @property
    def n_weights(self) -> int:
        return sum(m.weights.nnz for m in self.matchers)

    def predict(self, X: Any, *, beam: int = 10, top_k: int = 10, threads: int = 1) -> Predictions:
        return self.searcher.predict(X, beam=beam, top_k=top_k, threads=threads)

    def with_scoring(self, transform: str, combine: str) -> TreeModel:
        return TreeModel(self.tree, self.matchers, self.n_features, Scoring(transform, combine))
