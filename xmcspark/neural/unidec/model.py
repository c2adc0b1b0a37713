"""A trained model: the encoder, the heads and, with a classifier, a vector of each label. Vectors stay in files; what
is searched is made of them and of label texts (search.py), for labels that were trained and for new ones alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.heads import Heads
from xmcspark.neural.unidec.vectors import LabelSource, SearchSpace
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND, _VERSION = "classifier of UniDEC", 1
_ENCODER, HEADS, _CLASSIFIER = "encoder", "heads", "classifier"


@dataclass(frozen=True)
class UnidecModel:
    """What training leaves."""

    encoder: TextEncoder
    heads: Heads
    table: (
        np.ndarray | None
    )  # float32 [labels, classifier's width], mapped; zeros of labels that were not trained
    trained: np.ndarray  # int64, increasing: labels that some instance had

    def __post_init__(self) -> None:
        if (self.heads.classifier is None) != (self.table is None):
            raise InputError("a classifier head and its vectors of labels belong together: give both or none")

    def save(self, folder: Path | str) -> None:
        """Writes everything, what makes the folder whole last."""
        self.encoder.save(Path(folder) / _ENCODER)
        self.save_heads(folder)

    def save_heads(self, folder: Path | str) -> None:
        """All but the encoder, for a folder that has it elsewhere."""
        folder = Path(folder)
        self.heads.save(folder / HEADS)
        arrays = {"trained": self.trained} | ({} if self.table is None else {"vectors": self.table})
        save_arrays(folder / _CLASSIFIER, _KIND, _VERSION, {"width": self.encoder.width}, arrays)

    @staticmethod
    def load(folder: Path | str, encoder_folder: Path | str | None = None) -> UnidecModel:
        """What `save` has written, with the vectors mapped; `encoder_folder`: where the encoder lies, if elsewhere."""
        folder = Path(folder)
        header, arrays = load_arrays(folder / _CLASSIFIER, _KIND, _VERSION)
        encoder, heads = TextEncoder.load(encoder_folder or folder / _ENCODER), Heads.load(folder / HEADS)
        inputs = {head.linear.in_features for head in heads.modules}
        if {header["width"], encoder.width} != inputs:
            raise InputError(
                f"{folder} holds an encoder of {encoder.width} values and heads that read {sorted(inputs)}: its files "
                "are of different models, copy it again"
            )
        return UnidecModel(encoder, heads, arrays.get("vectors"), arrays["trained"])

    def source(
        self, label_tokens: TokenStore | None, space: str = "both", embedder: Embedder | None = None
    ) -> LabelSource:
        """What vectors of labels are made of, for `LabelSearch.write`. `label_tokens` may have more labels than were
        trained: those are found by their texts."""
        of = SearchSpace(self.heads, space)
        return LabelSource(self.encoder, of, label_tokens, self.table, self.trained, embedder or Embedder())
