"""Texts as the rows a model was trained on: TF-IDF and, for models that have one, the embedding of an encoder beside
it. Torch is loaded only for those."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.neural.available import require_torch
from xmcspark.sparse.csr import Csr, with_dense
from xmcspark.text import Tfidf

if TYPE_CHECKING:
    from xmcspark.neural.encoder import TextEncoder

ENCODER = "encoder"  # folder of a bundle


class TextReader:
    """Reads texts; opened from a bundle once."""

    def __init__(self, vectorizer: Tfidf, encoder: TextEncoder | None = None) -> None:
        self.vectorizer, self.encoder = vectorizer, encoder

    @staticmethod
    def open(bundle: Path) -> TextReader:
        vectorizer = Tfidf.load(bundle / "tfidf")
        if not (bundle / ENCODER).exists():
            return TextReader(vectorizer)
        require_torch(f"the bundle {bundle}, whose model has an encoder,")
        from xmcspark.neural.encoder import TextEncoder

        return TextReader(vectorizer, TextEncoder.load(bundle / ENCODER))

    def rows(self, texts: Any) -> Csr:
        """All texts at once."""
        X = self.vectorizer.rows(texts)
        if self.encoder is None:
            return X
        plain = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
        return with_dense(X, self.embeddings([text or "" for text in plain]))

    def embeddings(self, texts: list[str]) -> np.ndarray:
        """float32 [texts, width], of a bundle that has an encoder."""
        if self.encoder is None:
            raise InputError(
                "the bundle has no encoder, so texts have no embeddings: train a method that has one"
            )
        from xmcspark.neural.embed import embed_texts

        return embed_texts(self.encoder, texts)

    def one(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Features and values of one text, and its embedding, without overhead."""
        features, values = self.vectorizer.transform_one(text)
        return features, values, None if self.encoder is None else self.encoder.embed_one(text)
