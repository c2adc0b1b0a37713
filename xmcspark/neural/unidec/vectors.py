"""The vectors that are compared when labels are searched (paper 5, section 2.3.4): of either head, or of both,
concatenated, each half of length 1. Those of labels are made shard by shard into mapped files, so that neither texts,
classifier nor vectors of all labels are ever in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch

from xmcspark.errors import InputError
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.progress import EmbeddingProgress
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.heads import Head, Heads
from xmcspark.store.arrays import ArrayInParts, load_arrays, save_arrays

_KIND, _VERSION = "label vectors", 1
SHARD = 1 << 16  # texts that are embedded before their vectors are written


@dataclass(frozen=True)
class SearchSpace:
    """Which heads are compared."""

    heads: Heads
    space: str = "both"  # dual, classifier, or both: those that there are

    def __post_init__(self) -> None:
        if not self.used:
            raise InputError(f"{self.space} was to be searched, but the model has no such head")

    @property
    def used(self) -> dict[str, Head]:
        """The heads that are compared, in the order of their values in a vector."""
        named = (("dual", self.heads.dual), ("classifier", self.heads.classifier))
        return {name: head for name, head in named if head is not None and self.space in ("both", name)}

    @property
    def dual(self) -> bool:
        """Whether label texts are compared."""
        return "dual" in self.used

    @property
    def classifier(self) -> bool:
        return "classifier" in self.used

    @property
    def width(self) -> int:
        return sum(head.width for head in self.used.values())

    def queries(self, embeddings: np.ndarray) -> np.ndarray:
        """float32 [rows, width]: {Φ_D(x) ⊕ 𝔑(Φ_C(x))} of the encoder's embeddings."""
        return np.concatenate([projected(head, embeddings) for head in self.used.values()], axis=1)

    def labels(self, embeddings: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray:
        """float32 [labels, width]: {Φ_D(z) ⊕ 𝔑(Ψ)} of labels' embeddings (for dual) and their rows of the classifier.

        A row of zeros is that of a label that was not trained, which is found by its text alone: what the classifier
        would say of it is taken to be what the dual head says, which counts for both. So its scores compare with those
        of others."""
        parts = []
        if self.dual and self.heads.dual is not None:
            if embeddings is None:
                raise InputError("the dual head compares with label texts, and none were given")
            parts.append(projected(self.heads.dual, embeddings))
        if self.classifier:
            if rows is None:
                raise InputError("the classifier's vectors of labels were not given")
            if parts:
                parts[0][~rows.any(axis=1)] *= 2
            parts.append(unit(rows))
        return np.concatenate(parts, axis=1)

    def new_labels(self, embeddings: np.ndarray) -> np.ndarray:
        """float32 [labels, width]: of labels that are known by their texts alone."""
        if not self.dual or self.heads.dual is None:
            raise InputError(
                "labels that were not trained are found by their texts, which takes the dual head: train with "
                "unidec.heads [dual, classifier] and unidec.space both or dual"
            )
        without_rows = np.zeros((len(embeddings), self.width - self.heads.dual.width), np.float32)
        return self.labels(embeddings, without_rows)

    def similarities(self, query: np.ndarray, label: np.ndarray) -> dict[str, float]:
        """What each head adds to the score of a label, by what it is: "dual head". Of a label that is found by its text
        alone the dual head is named twice, as `labels` counts it."""
        ends = np.cumsum([head.width for head in self.used.values()])
        parts = np.split(query * label, ends[:-1])
        found = {f"{name} head": float(part.sum()) for name, part in zip(self.used, parts, strict=True)}
        if len(parts) > 1 and not label[ends[0] :].any():
            half = found["dual head"] / 2
            return {"dual head": half, "dual head in place of the classifier": half}
        return found


def projected(head: Head, embeddings: np.ndarray) -> np.ndarray:
    """float32 [rows, head's width], of length 1, without dropout."""
    if not embeddings.flags.writeable:  # of Arrow, say: torch takes no arrays that are there to be read
        embeddings = embeddings.copy()
    with evaluating(head), torch.no_grad():
        device = head.linear.weight.device
        found: np.ndarray = head.searched(torch.from_numpy(embeddings).to(device)).cpu().numpy()
    return found


@contextmanager
def evaluating(head: torch.nn.Module) -> Iterator[None]:
    """Without dropout; in the mode it was in, afterwards."""
    training = head.training
    head.eval()
    try:
        yield
    finally:
        head.train(training)


def unit(rows: np.ndarray) -> np.ndarray:
    """float32: rows of length 1; rows of zeros stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), np.float32)


def text_vectors(
    encoder: TextEncoder,
    make: Callable[[np.ndarray], np.ndarray],
    tokens: TokenStore,
    rows: np.ndarray,
    embedder: Embedder,
    out: np.ndarray,
) -> np.ndarray:
    """Writes `make` of the embeddings of some texts to `out` (mapped, say), shard by shard."""
    progress = embedder.progress(tokens, rows)
    for start in range(0, len(rows), SHARD):
        part = rows[start : start + SHARD]
        out[start : start + len(part)] = make(embedder.embedded(encoder, tokens, part, progress))
    return out


@dataclass(frozen=True)
class LabelSource:
    """What vectors of labels are made of."""

    encoder: TextEncoder
    space: SearchSpace
    tokens: TokenStore | None  # of label texts, by label
    table: np.ndarray | None  # float32 [labels, width]: the classifier's rows
    trained: np.ndarray | None = None  # int64, increasing: labels whose rows were trained; None: all
    embedder: Embedder = Embedder()

    def of(self, labels: np.ndarray, progress: EmbeddingProgress | None = None) -> np.ndarray:
        """float32 [labels, width]: the vectors of some labels; `progress`: of more than these."""
        embeddings = rows = None
        if self.space.dual and self.tokens is not None:
            embeddings = self.embedder.embedded(self.encoder, self.tokens, labels, progress)
        if self.space.classifier and self.table is not None:
            rows = np.zeros((len(labels), self.table.shape[1]), np.float32)
            known = labels < len(self.table)
            if self.trained is not None:
                known &= np.isin(labels, self.trained)
            rows[known] = self.table[labels[known]]
        return self.space.labels(embeddings, rows)

    def write(self, folder: Path | str, labels: np.ndarray, identity: str = "") -> LabelVectors:
        """The vectors of some labels in files, made shard by shard."""

        def copy(stream: IO[bytes]) -> None:
            progress = None if self.tokens is None else self.embedder.progress(self.tokens, labels)
            for start in range(0, len(labels), SHARD):
                part = self.of(labels[start : start + SHARD], progress)
                stream.write(np.ascontiguousarray(part).data)

        shape = (len(labels), self.space.width)
        vectors = ArrayInParts(np.dtype(np.float32), shape, copy)
        return LabelVectors.write(folder, vectors, labels, identity)


@dataclass(frozen=True)
class LabelVectors:
    """Vectors of labels in files, by label."""

    vectors: np.ndarray  # float32 [labels, width], mapped
    ids: np.ndarray  # int64 [labels]
    identity: str  # of the run they are of

    @staticmethod
    def write(
        folder: Path | str, vectors: np.ndarray | ArrayInParts, labels: np.ndarray, identity: str = ""
    ) -> LabelVectors:
        arrays: dict[str, np.ndarray | ArrayInParts] = {"vectors": vectors, "ids": labels.astype(np.int64)}
        save_arrays(Path(folder), _KIND, _VERSION, {"identity": identity}, arrays)
        return LabelVectors.open(folder)

    @staticmethod
    def open(folder: Path | str, *, identity: str | None = None) -> LabelVectors:
        header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        if identity is not None and header["identity"] != identity:
            raise InputError(
                f"{folder} has the label vectors of {header['identity'] or 'an unnamed run'}, not of {identity}: make "
                "them again from this run"
            )
        return LabelVectors(arrays["vectors"], arrays["ids"], header["identity"])
