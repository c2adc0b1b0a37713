"""How good a model is while it is trained: P@1 of instances that were held out, among all labels that are trained."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.nearest import ExactLabels
from xmcspark.neural.unidec.vectors import LabelSource, SearchSpace


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
            found, _ = ExactLabels(made.vectors, made.ids).search(queries, 1)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        Y = self.data.Y
        own = [Y.indices[Y.indptr[row] : Y.indptr[row + 1]] for row in self.rows]
        return float(np.mean([best in labels for best, labels in zip(found[:, 0], own, strict=True)]))
