"""Beam search: the best labels of queries, by going down the tree through the best nodes of each level.

Works on matchers packed per node (native/packed.h), which are flat arrays: saved as they are and memory-mapped when
opened, so that a model of any size is ready at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from xmcspark._native.search import PackedModel, pack, pack_dense
from xmcspark.errors import InputError
from xmcspark.matchers.files import load_model, save_model, take_array
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.targets import by_position, nonzero
from xmcspark.sparse.csr import Csr, as_csr, check_width
from xmcspark.tree.label_tree import LabelTree


class Searchable(Protocol):
    """What `search` takes: a trained model, or a searcher opened by itself."""

    @property
    def searcher(self) -> Searcher: ...


def search(
    model: Searchable, X: Any, *, beam: int = 10, top_k: int = 10, candidates: Any = None, threads: int = 1
) -> Predictions:
    """The `top_k` best labels of each row of X, best first.

    Without `candidates`: beam search through at most `beam` nodes a level. With `candidates` (instances x labels,
    non-zero = allowed): the best of those labels that are in the tree, each scored exactly, no beam.
    """
    searcher = model.searcher
    if candidates is None:
        return searcher.predict(X, beam=beam, top_k=top_k, threads=threads)
    _, top_k = _check_sizes(beam, top_k, searcher.tree.n_labels)
    return Predictions.from_csr(searcher.score(X, candidates, threads=threads), top_k)


@dataclass(frozen=True)
class PackedLevel:
    """One level packed for search; see native/packed.h."""

    slot_ptr: np.ndarray
    entry_ptr: np.ndarray
    slots: np.ndarray
    entries: np.ndarray
    bias: np.ndarray
    dense: np.ndarray | None = None  # float32[children * width], in the blocks of native/dense_margins.h

    @staticmethod
    def of(weights: Csr, bias: np.ndarray, child_ptr: np.ndarray) -> PackedLevel:
        """Packs matchers given as rows, one a child."""
        return PackedLevel(*pack(weights, child_ptr), bias, pack_dense(weights, child_ptr))

    @staticmethod
    def opened(folder: str | Path, arrays: dict[str, np.ndarray], level: int, width: int) -> PackedLevel:
        """From the arrays of a saved searcher."""
        names = [name for name in PackedLevel.__dataclass_fields__ if name != "dense" or width]
        return PackedLevel(**{name: take_array(folder, arrays, f"{level}.{name}") for name in names})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Those that are there, by name."""
        return {name: array for name, array in vars(self).items() if array is not None}


class Searcher:
    """Finds the best labels of queries: `TreeModel.searcher`, or saved and opened again by itself."""

    def __init__(
        self,
        tree: LabelTree,
        levels: tuple[PackedLevel, ...],
        n_features: int,
        scoring: Scoring,
        width: int = 0,
    ):
        """`width`: how many of the features, the last ones, are dense columns."""
        self.tree, self.levels, self.n_features, self.scoring = tree, levels, n_features, scoring
        self.width = width
        self._packed = PackedModel(
            [
                (ptr, level.slot_ptr, level.entry_ptr, level.slots, level.entries, level.bias, level.dense)
                for ptr, level in zip(tree.child_ptr, levels, strict=True)
            ],
            width,
            tree.labels,
            *scoring.kernel_form,
            scoring.path_weight,
        )

    @property
    def searcher(self) -> Searcher:
        return self

    def predict(self, X: Any, *, beam: int = 10, top_k: int = 10, threads: int = 1) -> Predictions:
        """The `top_k` best labels of each row of X, through at most `beam` nodes a level.

        Rows without features get the labels that their biases favour; `top_k` above the number of labels
        is cut to it.
        """
        check_threads(threads)
        X = self._checked(X)
        beam, top_k = _check_sizes(beam, top_k, self.tree.n_labels)
        return Predictions(*self._packed.search(X, beam, top_k, threads))

    def predict_one(
        self,
        features: np.ndarray,
        values: np.ndarray,
        dense: np.ndarray | None = None,
        *,
        beam: int = 10,
        top_k: int = 10,
    ) -> Predictions:
        """As `predict` for one query, given as increasing int32 features and float32 values, and where the model has
        dense columns the values of these: no overhead."""
        beam, top_k = _check_sizes(beam, top_k, self.tree.n_labels)
        features, values = np.ascontiguousarray(features, np.int32), np.ascontiguousarray(values, np.float32)
        block = np.empty(0, np.float32) if dense is None else np.ascontiguousarray(dense, np.float32)
        if block.shape != (self.width,):
            raise InputError(
                f"a query has dense values of shape {block.shape}: this model needs ({self.width},)"
                + (", the embedding of the text" if self.width else ", none at all")
            )
        sparse = self.n_features - self.width
        labels, scores = self._packed.search_one(features, values, block, sparse, beam, top_k)
        return Predictions(labels[None], scores[None])

    def score(self, X: Any, candidates: Any, *, threads: int = 1) -> Csr:
        """The scores of given labels only: `candidates` is instances x labels, its non-zero entries say which.
        Labels that are not in the tree have no score and are left out."""
        check_threads(threads)
        X = self._checked(X)
        wanted = nonzero(as_csr(candidates, "candidates", rows=X.shape[0]))
        positions = by_position(wanted, self.tree, outside="drop")
        scores = self._packed.score_pairs(X, positions, threads)
        placed = Csr(positions.indptr, self.tree.labels[positions.indices], scores, wanted.shape).to_scipy()
        placed.has_sorted_indices = False
        placed.sort_indices()
        return Csr(positions.indptr, placed.indices.astype(np.int32, copy=False), placed.data, wanted.shape)

    def save(self, folder: str | Path) -> None:
        """Writes what search needs, and no more; `Searcher.load` maps it into memory."""
        arrays = {
            f"{t}.{name}": array
            for t, level in enumerate(self.levels)
            for name, array in level.arrays.items()
        }
        save_model(
            Path(folder),
            "packed tree model",
            self.tree,
            self.n_features,
            self.scoring,
            arrays,
            width=self.width,
        )

    @staticmethod
    def load(folder: str | Path, scoring: Scoring | None = None) -> Searcher:
        """Opens a saved searcher without reading it; `scoring` in place of what it was saved with."""
        tree, header, arrays = load_model(Path(folder), "packed tree model", LabelTree.opened)
        levels = tuple(PackedLevel.opened(folder, arrays, t, header.width) for t in range(tree.depth))
        for t, (level, ptr) in enumerate(zip(levels, tree.child_ptr, strict=True)):
            check_packed(f"{folder}, level {t}", level, ptr, header.width)
        return Searcher(tree, levels, header.n_features, scoring or header.scoring, header.width)

    def _checked(self, X: Any) -> Csr:
        rows = as_csr(X, "X", cols=self.n_features, dense="keep")
        check_width(rows, self.width, "the model")
        return rows


def check_packed(name: str, level: PackedLevel, child_ptr: np.ndarray, width: int) -> None:
    """That the arrays fit together; what lies inside them is looked at on the way (native/search.h)."""
    pairs = ((level.slot_ptr, level.slots), (level.entry_ptr, level.entries))
    good = len(level.bias) == child_ptr[-1] and all(
        len(ptr) == len(child_ptr) and ptr[-1] == len(of) and of.shape[1:] == (2,) for ptr, of in pairs
    )
    if level.dense is not None:
        good = good and level.dense.shape == (len(level.bias) * width,)
    if not good:
        raise InputError(f"{name}: its arrays do not fit together; copy or save the model again")


def check_threads(threads: int) -> None:
    if threads < 1:
        raise InputError(f"threads is {threads}: it must be at least 1")


def _check_sizes(beam: int, top_k: int, n_labels: int) -> tuple[int, int]:
    if beam < 1 or top_k < 1:
        raise InputError(f"beam ({beam}) and top_k ({top_k}) must be at least 1")
    return beam, min(top_k, n_labels)
