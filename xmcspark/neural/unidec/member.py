"""UniDEC as a member of an ensemble (matchers/members.py): rows of X are known by their embeddings, their last columns,
and labels are found by the search of their vectors. Decides how labels that are excluded are left out: by looking for
as many more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.exclusion import found_without
from xmcspark.matchers.members import Row
from xmcspark.matchers.predictions import Predictions
from xmcspark.neural.unidec.search import LabelSearch
from xmcspark.sparse.csr import Csr


@dataclass(frozen=True)
class NearestMember:
    """A search of vectors, which has no beam."""

    search: LabelSearch

    @staticmethod
    def load(folder: Path | str, *, identity: str | None = None) -> NearestMember:
        """Maps what training wrote; InputError if it is of another fine-tuning, or damaged."""
        return NearestMember(LabelSearch.open(folder, identity=identity))

    def predict(
        self, X: Csr, excluded: Csr | None, *, beam: int = 1, top_k: int, threads: int = 1
    ) -> Predictions:
        embeddings = X.dense
        if embeddings is None:
            raise InputError(
                "UniDEC finds labels by embeddings, and the rows given have none: run encode first"
            )
        if excluded is None:
            return self._found(embeddings, top_k)
        every = len(embeddings)
        return found_without(
            lambda rows, k: self._found(embeddings if len(rows) == every else embeddings[rows], k),
            excluded,
            top_k,
            min(top_k, len(self.search.index)),
        )

    def predict_one(self, row: Row, *, beam: int = 1, top_k: int) -> Predictions:
        embedding = row[2]
        if embedding is None:
            raise InputError("UniDEC finds labels by embeddings, and the text was given without one")
        return self._found(embedding[None], top_k)

    def with_labels(self, ids: np.ndarray, embeddings: np.ndarray) -> NearestMember:
        """One that finds further labels as well, by the embeddings of their texts."""
        return replace(self, search=self.search.with_labels(ids, embeddings))

    def _found(self, embeddings: np.ndarray, k: int) -> Predictions:
        if k < 1:
            raise InputError(f"top_k is {k}: ask for at least 1 label")
        return Predictions(*self.search.search(embeddings, min(k, len(self.search.index))))
