"""The trained model: a label tree, one linear matcher per child of each node, and how paths are scored.

Matchers are sparse rows here, to inspect and to start the next training from; `searcher` packs them for search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.matchers.files import load_model, save_model, take_array
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import PackedLevel, Searcher
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.tree.label_tree import LabelTree


@dataclass(frozen=True)
class Matchers:
    """The matchers of one level: row c of `weights` and `bias[c]` score child c."""

    weights: Csr
    bias: np.ndarray


@dataclass(frozen=True)
class TreeModel:
    """A label tree with its matchers, level by level from the root."""

    tree: LabelTree
    matchers: tuple[Matchers, ...]
    n_features: int
    scoring: Scoring = Scoring()

    def __post_init__(self) -> None:
        sizes = [(m.weights.shape, len(m.bias)) for m in self.matchers]
        if sizes != [((int(p[-1]), self.n_features), int(p[-1])) for p in self.tree.child_ptr]:
            raise InputError("matchers and tree do not belong together: each level needs a matcher per child")

    @cached_property
    def searcher(self) -> Searcher:
        levels = tuple(
            PackedLevel.of(m.weights, m.bias, ptr)
            for m, ptr in zip(self.matchers, self.tree.child_ptr, strict=True)
        )
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
            parts = {
                "indptr": m.weights.indptr,
                "indices": m.weights.indices,
                "data": m.weights.data,
                "bias": m.bias,
            }
            arrays.update({f"{t}.{name}": array for name, array in parts.items()})
        save_model(Path(folder), "tree model", self.tree, self.n_features, self.scoring, arrays)

    @staticmethod
    def load(folder: str | Path) -> TreeModel:
        tree, n_features, scoring, arrays = load_model(Path(folder), "tree model")
        matchers = []
        for t in range(tree.depth):
            parts = [take_array(folder, arrays, f"{t}.{name}") for name in ("data", "indices", "indptr")]
            children = int(tree.child_ptr[t][-1])
            rows = sp.csr_matrix((children, n_features), dtype=np.float32)
            rows.data, rows.indices, rows.indptr = parts
            bias = take_array(folder, arrays, f"{t}.bias")
            if len(bias) != children:
                raise InputError(f"{folder}: level {t} has {len(bias)} biases for {children} matchers")
            matchers.append(Matchers(as_csr(rows, f"{folder}, level {t}"), bias))
        return TreeModel(tree, tuple(matchers), n_features, scoring)
