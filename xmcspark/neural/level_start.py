"""Where a level of fine-tuning starts from, kept on disk before it starts: the parents predicted so far, the head's
first weights and the encoder. A run that was killed inside a level finds it there and repeats no level above."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.neural.encoder import TextEncoder
from xmcspark.sparse.csr import Csr
from xmcspark.store.arrays import HEADER, load_arrays, save_arrays

_KIND, _VERSION = "start of a level", 2
_ENCODER = "encoder"


@dataclass(frozen=True)
class LevelStart:
    """What a level is given by those above."""

    level: int
    parents: Csr  # predicted for each row, with their scores
    weights: np.ndarray | None = None  # float32 [outputs, width], of the head; None: from nothing
    bias: np.ndarray | None = None  # float32 [outputs]

    def without_head(self) -> LevelStart:
        """For when the head has its weights: they follow the number of outputs, and no step needs them again."""
        return LevelStart(self.level, self.parents)

    def save(self, folder: Path, encoder: TextEncoder) -> None:
        """The encoder first: a level that can be read is complete."""
        place = folder / f"level-{self.level}"
        encoder.save(place / _ENCODER)
        arrays = {
            "parents.indptr": self.parents.indptr,
            "parents.indices": self.parents.indices,
            "parents.data": self.parents.data,
        }
        if self.weights is not None and self.bias is not None:
            arrays |= {"weights": self.weights, "bias": self.bias}
        header = {"level": self.level, "columns": self.parents.shape[1]}
        save_arrays(place, _KIND, _VERSION, header, arrays)

    @staticmethod
    def latest(folder: Path) -> tuple[LevelStart, Path] | None:
        """The last level that was begun, and where its encoder lies; None if there is none."""
        begun = [file.parent for file in folder.glob(f"level-*/{HEADER}")]
        if not begun:
            return None
        place = max(begun, key=lambda found: int(found.name.removeprefix("level-")))
        header, arrays = load_arrays(place, _KIND, _VERSION)
        indptr, indices, data = (arrays[f"parents.{part}"] for part in ("indptr", "indices", "data"))
        parents = Csr(indptr, indices, data, (len(indptr) - 1, int(header["columns"])))
        start = LevelStart(int(header["level"]), parents, arrays.get("weights"), arrays.get("bias"))
        return start, place / _ENCODER
