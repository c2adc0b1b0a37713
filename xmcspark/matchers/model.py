"""The trained model: a label tree, one linear matcher per child of each node, and how paths are scored.

It exists in two forms: matchers as sparse rows, to inspect and to start the next training from, and packed for
search. Both are flat arrays, saved as .npy and memory-mapped when opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark._native.search import PackedModel, pack
from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.targets import by_position
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.label_tree import LabelTree

VERSION = 1  # of both saved forms


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
    """Finds the best labels of queries: `TreeModel.searcher`, or saved and opened again by itself."""

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
        wanted = as_csr(candidates, "candidates", rows=X.shape[0])
        positions = by_position(wanted, self.tree)
        scores = self._packed.score_pairs(X, positions, threads)
        placed = Csr(positions.indptr, self.tree.labels[positions.indices], scores, wanted.shape).to_scipy()
        placed.has_sorted_indices = False
        placed.sort_indices()
        return Csr(wanted.indptr, placed.indices.astype(np.int32, copy=False), placed.data, wanted.shape)


    def save(self, folder: str | Path) -> None:
        """Writes what search needs, and no more; `Searcher.load` maps it into memory."""
        arrays = {f"{t}.{name}": array for t, level in enumerate(self.levels) for name, array in vars(level).items()}
        _save(Path(folder), "packed tree model", self.tree, self.n_features, self.scoring, arrays)

    @staticmethod
    def load(folder: str | Path) -> Searcher:
        tree, n_features, scoring, arrays = _load(Path(folder), "packed tree model")
        names = PackedLevel.__dataclass_fields__
        levels = tuple(
            PackedLevel(**{name: _take(folder, arrays, f"{t}.{name}") for name in names}) for t in range(tree.depth)
        )
        for t, (level, ptr) in enumerate(zip(levels, tree.child_ptr, strict=True)):
            _check_packed(f"{folder}, level {t}", level, ptr)
        return Searcher(tree, levels, n_features, scoring)


def _check_packed(name: str, level: PackedLevel, child_ptr: np.ndarray) -> None:
    """The bounds every access relies on; what lies between them is for checksums."""
    for ptr, of in ((level.slot_ptr, level.slots), (level.entry_ptr, level.entries)):
        good = len(ptr) == len(child_ptr) and ptr[0] == 0 and ptr[-1] == len(of) and bool((np.diff(ptr) >= 0).all())
        if not good or of.shape[1:] != (2,):
            raise InputError(f"{name}: its arrays do not fit together; copy or save the model again")
    if len(level.bias) != child_ptr[-1] or not bool((np.diff(level.slot_ptr) > 0).all()):
        raise InputError(f"{name}: its arrays do not fit together; copy or save the model again")


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

    def with_scoring(self, transform: str, combine: str = "product") -> TreeModel:
        """The same matchers, their margins scored in another way."""
        return replace(self, scoring=Scoring(transform, combine))

    def save(self, folder: str | Path) -> None:
        """Writes tree and matchers as arrays a person can open with numpy."""
        arrays = {}
        for t, m in enumerate(self.matchers):
            parts = {"indptr": m.weights.indptr, "indices": m.weights.indices, "data": m.weights.data, "bias": m.bias}
            arrays.update({f"{t}.{name}": array for name, array in parts.items()})
        _save(Path(folder), "tree model", self.tree, self.n_features, self.scoring, arrays)

    @staticmethod
    def load(folder: str | Path) -> TreeModel:
        tree, n_features, scoring, arrays = _load(Path(folder), "tree model")
        matchers = []
        for t in range(tree.depth):
            parts = [_take(folder, arrays, f"{t}.{name}") for name in ("data", "indices", "indptr")]
            children = int(tree.child_ptr[t][-1])
            rows = sp.csr_matrix((children, n_features), dtype=np.float32)
            rows.data, rows.indices, rows.indptr = parts
            bias = _take(folder, arrays, f"{t}.bias")
            if len(bias) != children:
                raise InputError(f"{folder}: level {t} has {len(bias)} biases for {children} matchers")
            matchers.append(Matchers(as_csr(rows, f"{folder}, level {t}"), bias))
        return TreeModel(tree, tuple(matchers), n_features, scoring)


def _save(
    folder: Path, kind: str, tree: LabelTree, n_features: int, scoring: Scoring, arrays: dict[str, np.ndarray]
) -> None:
    tree_arrays = {f"tree.{t}": ptr for t, ptr in enumerate(tree.child_ptr)} | {"tree.labels": tree.labels}
    header = {"n_features": n_features, "depth": tree.depth, "scoring": asdict(scoring)}
    save_arrays(folder, kind, VERSION, header, tree_arrays | arrays)


def _load(folder: Path, kind: str) -> tuple[LabelTree, int, Scoring, dict[str, np.ndarray]]:
    header, arrays = load_arrays(folder, kind, VERSION)
    try:
        depth, n_features, scoring = int(header["depth"]), int(header["n_features"]), Scoring(**header["scoring"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: its header is not that of a {kind}: {error}") from error
    tree = LabelTree(
        tuple(_take(folder, arrays, f"tree.{t}") for t in range(depth)), _take(folder, arrays, "tree.labels")
    )
    return tree, n_features, scoring, arrays


def _take(folder: str | Path, arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise InputError(f"{folder}: array {name} is not listed: save the model again")
    return arrays[name]
