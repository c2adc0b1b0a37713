"""The trained model: a label tree, one linear matcher per child of each node, and how paths are scored.

Matchers are rows here, to inspect and to start the next training from; `searcher` packs them for search."""

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
from xmcspark.sparse.csr import Csr, as_csr, with_dense
from xmcspark.tree.label_tree import LabelTree


@dataclass(frozen=True)
class Matchers:
    """The matchers of one level: row c of `weights` and `bias[c]` score child c. Weights have a dense block where the
    features have."""

    weights: Csr
    bias: np.ndarray

    @property
    def n_weights(self) -> int:
        """Of all of them, those of dense columns included."""
        return self.weights.nnz + self.weights.width * self.weights.shape[0]


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
        if len({m.weights.width for m in self.matchers}) > 1:
            raise InputError(
                "matchers of one level have a dense block where those of another have none or another"
            )

    @cached_property
    def searcher(self) -> Searcher:
        levels = tuple(
            PackedLevel.of(m.weights, m.bias, ptr)
            for m, ptr in zip(self.matchers, self.tree.child_ptr, strict=True)
        )
        return Searcher(self.tree, levels, self.n_features, self.scoring, self.width)

    @property
    def width(self) -> int:
        """How many of the features, the last ones, are dense columns."""
        return self.matchers[0].weights.width

    @property
    def n_weights(self) -> int:
        return sum(m.weights.nnz + m.weights.shape[0] * m.weights.width for m in self.matchers)

    def predict(self, X: Any, *, beam: int = 10, top_k: int = 10, threads: int = 1) -> Predictions:
        return self.searcher.predict(X, beam=beam, top_k=top_k, threads=threads)

    def with_scoring(self, transform: str, combine: str = "product", path_weight: float = 1.0) -> TreeModel:
        """The same matchers, their margins scored in another way."""
        return replace(self, scoring=Scoring(transform, combine, path_weight))

    def save(self, folder: str | Path) -> None:
        """Writes tree and matchers as arrays a person can open with numpy."""
        arrays = {}
        for t, m in enumerate(self.matchers):
            parts = {
                "indptr": m.weights.indptr,
                "indices": m.weights.indices,
                "data": m.weights.data,
                "dense": m.weights.dense,
                "bias": m.bias,
            }
            arrays.update({f"{t}.{name}": array for name, array in parts.items() if array is not None})
        save_model(
            Path(folder), "tree model", self.tree, self.n_features, self.scoring, arrays, width=self.width
        )

    @staticmethod
    def load(folder: str | Path) -> TreeModel:
        tree, header, arrays = load_model(Path(folder), "tree model")
        matchers = []
        for t in range(tree.depth):
            parts = [take_array(folder, arrays, f"{t}.{name}") for name in ("data", "indices", "indptr")]
            children, name = int(tree.child_ptr[t][-1]), f"{folder}, level {t}"
            rows = sp.csr_matrix((children, header.n_features - header.width), dtype=np.float32)
            rows.data, rows.indices, rows.indptr = parts
            weights = as_csr(rows, name)
            if header.width:
                weights = with_dense(weights, take_array(folder, arrays, f"{t}.dense"), name)
            bias = take_array(folder, arrays, f"{t}.bias")
            if len(bias) != children:
                raise InputError(f"{folder}: level {t} has {len(bias)} biases for {children} matchers")
            matchers.append(Matchers(weights, bias))
        return TreeModel(tree, tuple(matchers), header.n_features, header.scoring)
