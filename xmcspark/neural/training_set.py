"""What the torch stage learns from, as plain arrays in a folder: TF-IDF rows, targets and tokenised texts of the
training instances. Made once from the tables; every process that fine-tunes opens it by memory map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.neural.held_out import drawn_rows, learned_targets
from xmcspark.neural.tokens import TokenStore
from xmcspark.sparse.csr import Csr, with_dense
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND, _VERSION = "training set", 1
_TOKENS = "tokens"
_IF_KNOWN = ("relevance", "row_weights", "made", "silent")


@dataclass(frozen=True)
class TrainingSet:
    """Training instances, one a row, in the order of row_keys."""

    X: Csr  # TF-IDF; rows of length 1
    Y: Csr  # targets by label id, above 0 and at most 1
    tokens: TokenStore
    row_keys: np.ndarray  # int64: what random choices about a row follow from
    relevance: np.ndarray | None = None  # float32, of each entry of Y
    row_weights: np.ndarray | None = None  # float32 [rows, 2], as `Trainer` has them
    made: np.ndarray | None = None  # bool [rows]: instances that augmentation made
    silent: np.ndarray | None = None  # bool [rows]: those that say nothing of what labels look like

    def __post_init__(self) -> None:
        rows = self.X.shape[0]
        sizes = {self.Y.shape[0], len(self.tokens), len(self.row_keys), rows}
        sizes |= {len(part) for part in (self.row_weights, self.made, self.silent) if part is not None}
        if sizes != {rows} or not rows:
            raise InputError(
                f"a training set needs as many rows everywhere, and at least one: {sorted(sizes)}"
            )
        if self.relevance is not None and len(self.relevance) != self.Y.nnz:
            raise InputError(
                f"{len(self.relevance)} values of relevance for {self.Y.nnz} targets: give one for each target above 0"
            )

    def __len__(self) -> int:
        return self.X.shape[0]

    def arrays(self) -> list[np.ndarray | None]:
        """All of it."""
        sparse = [getattr(m, part) for m in (self.X, self.Y) for part in ("indptr", "indices", "data")]
        return [*sparse, *self.tokens.arrays, self.row_keys, *(getattr(self, name) for name in _IF_KNOWN)]

    @property
    def costs(self) -> Csr:
        """Relevance of labels; their targets if nothing is known (paper 4, eq. 6: R = Y at the leaves)."""
        values = self.Y.data if self.relevance is None else self.relevance
        return Csr(self.Y.indptr, self.Y.indices, values, self.Y.shape)

    def held_out(self, share: float, seed: int) -> np.ndarray:
        """bool: rows that the encoder is checked on; made ones are always trained on."""
        return drawn_rows(self.row_keys, self.made, share, seed)

    def describing(self, held_out: np.ndarray | None = None) -> Csr:
        """The targets that labels are described by (PIFA): of rows held out only where a label has no others, of silent
        ones only if all are."""
        Y = self.Y if held_out is None else learned_targets(self.Y, held_out, every_label=True)
        return Y if self.silent is None or self.silent.all() else learned_targets(Y, self.silent)

    def with_embeddings(self, E: np.ndarray) -> Csr:
        """Φ_cat (paper 4, eq. 10): TF-IDF and embeddings, each of length 1."""
        return with_dense(self.X, E)

    def save(self, folder: Path) -> None:
        """Writes all but the tokens, which lie in `tokens_folder(folder)` already."""
        arrays = {
            f"{name}.{part}": getattr(matrix, part)
            for name, matrix in (("X", self.X), ("Y", self.Y))
            for part in ("indptr", "indices", "data")
        }
        arrays["row_keys"] = self.row_keys
        more = {name: getattr(self, name) for name in _IF_KNOWN}
        arrays |= {name: array for name, array in more.items() if array is not None}
        header = {"features": self.X.shape[1], "labels": self.Y.shape[1]}
        save_arrays(folder, _KIND, _VERSION, header, arrays)

    @staticmethod
    def load(folder: Path) -> TrainingSet:
        header, arrays = load_arrays(folder, _KIND, _VERSION)

        def matrix(name: str, columns: int) -> Csr:
            indptr, indices, data = (arrays[f"{name}.{part}"] for part in ("indptr", "indices", "data"))
            return Csr(indptr, indices, data, (len(indptr) - 1, columns))

        return TrainingSet(
            matrix("X", int(header["features"])),
            matrix("Y", int(header["labels"])),
            TokenStore.open(tokens_folder(folder)),
            arrays["row_keys"],
            **{name: arrays.get(name) for name in _IF_KNOWN},
        )


def tokens_folder(folder: Path) -> Path:
    """Where the tokens of a training set lie."""
    return folder / _TOKENS


def embeddings_alone(E: np.ndarray) -> Csr:
    """Embeddings as rows of X, with no sparse columns before them."""
    rows = len(E)
    nothing = np.zeros(rows + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Csr(*nothing, (rows, E.shape[1]), np.ascontiguousarray(E, np.float32))
