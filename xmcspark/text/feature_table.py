"""Which table holds the rows of X, and how its columns become rows: `features`, TF-IDF alone, or `embeddings`, the same
rows with the embedding of the text beside them, X's last columns. Later stages read one of them; nothing is joined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xmcspark.config.configuration import Config
from xmcspark.errors import InputError
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.csr import Csr


def feature_table(config: Config) -> str:
    """The table that index and train read, for trees: TF-IDF alone beside UniDEC, which finds labels by embeddings."""
    return "features" if config.unidec.enabled else searched_table(config)


def searched_table(config: Config) -> str:
    """The table that predict reads: all that any member needs."""
    return "embeddings" if config.encoder.enabled else "features"


@dataclass(frozen=True)
class FeatureSpace:
    """The columns of X: so many of TF-IDF, then so many of embeddings. Travels with tasks."""

    sparse: int
    width: int = 0

    @property
    def size(self) -> int:
        return self.sparse + self.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the table, those that rows are made of."""
        return ("indices", "values", "embedding") if self.width else ("indices", "values")

    def rows(self, table: pa.Table | pa.RecordBatch) -> Csr:
        """The rows of a part of the table that has these columns."""
        X = csr_of_lists(table.column("indices"), table.column("values"), self.sparse, "features")
        if X.nnz and (X.indices.min() < 0 or X.indices.max() >= self.sparse):
            raise InputError(
                f"the table features names feature {X.indices.max()}, but there are only {self.sparse}: the tables of "
                "this run do not belong together, run it again from vectorize on"
            )
        if not self.width:
            return X
        dense = self._embeddings(table.column("embedding"))
        return Csr(X.indptr, X.indices, X.data, (X.shape[0], self.size), dense)

    def _embeddings(self, lists: pa.Array | pa.ChunkedArray) -> np.ndarray:
        whole = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
        values = whole.flatten().to_numpy(zero_copy_only=False)
        if len(values) != len(whole) * self.width:
            raise InputError(
                f"embeddings of {len(whole)} instances have {len(values)} values where each should have {self.width}: "
                "run encode again"
            )
        return np.ascontiguousarray(values.reshape(len(whole), self.width), np.float32)

    def divided(self, W: Csr) -> Csr:
        """Rows whose entries name columns of both kinds, as the table matchers has weights, with those of embeddings
        as a dense block again: each row has all of them, after the others."""
        if not self.width:
            return W
        counts = np.diff(W.indptr) - self.width
        first = W.indptr[1:] - self.width
        if (counts < 0).any() or (W.indices[first[counts >= 0]] != self.sparse).any():
            raise InputError("the table matchers has rows without the weights of embeddings: run train again")
        kept = np.ones(W.nnz, bool)
        last = first[:, None] + np.arange(self.width)
        kept[last] = False
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        dense = W.data[last].reshape(len(counts), self.width)
        return Csr(indptr, W.indices[kept], W.data[kept], (W.shape[0], self.size), dense)
