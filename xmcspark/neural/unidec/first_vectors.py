"""What the classifier's vectors of labels start from: what g2 makes of the labels' texts, or random directions.
They are made shard by shard into a file, which a run that is resumed finds again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import ClassifierHead
from xmcspark.neural.unidec.vectors import SHARD, projected
from xmcspark.store.arrays import HEADER, ArrayInParts, load_arrays, save_arrays

_KIND, _VERSION = "first vectors of labels", 2


def first_vectors(
    folder: Path,
    data: UnidecData,
    head: ClassifierHead,
    encoder: TextEncoder | None,
    embedder: Embedder,
    *,
    seed: int,
) -> np.ndarray:
    """float32 [labels, head's width], mapped: of length 1 or about 1; zeros of labels that no instance has. Without an
    encoder they are random. Those of an earlier attempt are found again: its encoder was another by then."""
    if not embedder.processes.all_have((folder / HEADER).exists()):
        labels = data.trained_labels
        made = _maker(data, head, encoder, embedder, seed)

        def copy(stream: IO[bytes]) -> None:
            for start in range(0, data.Y.shape[1], SHARD):
                end = min(start + SHARD, data.Y.shape[1])
                own = labels[np.searchsorted(labels, start) : np.searchsorted(labels, end)]
                vectors = np.zeros((end - start, head.width), np.float32)
                vectors[own - start] = made(own, start)
                stream.write(vectors.data)

        shape = (data.Y.shape[1], head.width)
        vectors = ArrayInParts(np.dtype(np.float32), shape, copy)
        save_arrays(folder, _KIND, _VERSION, {}, {"vectors": vectors})
    return load_arrays(folder, _KIND, _VERSION)[1]["vectors"]


def _maker(
    data: UnidecData, head: ClassifierHead, encoder: TextEncoder | None, embedder: Embedder, seed: int
) -> Callable[[np.ndarray, int], np.ndarray]:
    """What makes the vectors of the labels of a shard, given its first id."""
    tokens = data.label_tokens
    if encoder is not None and tokens is not None:
        progress = embedder.progress(tokens, data.trained_labels)
        return lambda labels, _: projected(head, embedder.embedded(encoder, tokens, labels, progress))

    def drawn(labels: np.ndarray, first: int) -> np.ndarray:
        stream = np.random.Generator(np.random.PCG64(seed + first))
        found = stream.standard_normal((len(labels), head.width), np.float32)
        return np.asarray(found / np.sqrt(np.float32(head.width)))

    return drawn
