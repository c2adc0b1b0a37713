"""How good a model is while it is trained: P@1 of instances that were held out, among all labels that are trained."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.matchers.exclusion import found_without
from xmcspark.matchers.predictions import Predictions
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.nearest import ExactLabels
from xmcspark.neural.unidec.vectors import LabelSource, SearchSpace
from xmcspark.sparse.rows import take_rows


@dataclass(frozen=True)
class Validator:
    """Compares some instances with all labels. Texts of all labels are encoded each time, so check seldom."""

    data: UnidecData
    rows: np.ndarray  # int64: instances held out, all with labels
    space: SearchSpace
    table: RowTable | None
    embedder: Embedder
    scratch: Path  # of this process alone

    def __call__(self, encoder: TextEncoder) -> float:
        table = None if self.table is None else self.table.weights
        source = LabelSource(encoder, self.space, self.data.label_tokens, table, embedder=self.embedder)
        try:
            made = source.write(self.scratch, self.data.trained_labels)
            queries = self.space.queries(self.embedder.embedded(encoder, self.data.tokens, self.rows))
            best = self._best(ExactLabels(made.vectors, made.ids), queries)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        Y = self.data.Y
        own = [Y.indices[Y.indptr[row] : Y.indptr[row + 1]] for row in self.rows]
        return float(np.mean([label in labels for label, labels in zip(best, own, strict=True)]))

    def _best(self, index: ExactLabels, queries: np.ndarray) -> np.ndarray:
        """The nearest label of each instance that is not excluded for it: what would be predicted."""
        if self.data.excluded is None:
            return index.search(queries, 1)[0][:, 0]
        return found_without(
            lambda rows, k: Predictions(*index.search(queries[rows], min(k, len(index)))),
            take_rows(self.data.excluded, self.rows),
            1,
            1,
        ).labels[:, 0]
