"""Counting a part of a corpus, for those who add parts up elsewhere (Spark): grams with their document
frequencies. Sums over parts, the choice of features and their numbers are left to the caller, who hands
them to `Tfidf.from_vocabulary`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from xmcspark._native.text import Counter
from xmcspark.text.normalize import normalized_blocks
from xmcspark.text.settings import TfidfSettings


@dataclass(frozen=True)
class GramCounts:
    """What a part of a corpus holds. Rows are ordered by vectorizer, then gram."""

    documents: int
    vectorizer: np.ndarray  # uint8: index of the vectorizer
    gram: pa.Array  # large_string
    df: np.ndarray  # int64: documents of this part that hold the gram
    occurrences: np.ndarray  # int64


def gram_counts(
    texts: Any, settings: TfidfSettings, *, threads: int = 1, column: str = "text", first: int = 0
) -> GramCounts:
    """Counts the grams of `texts` (see `xmcspark.text.sources`), all of them, whatever min_df and the like say.

    `first` is the number of the first document, for messages. No documents: no rows.
    """
    settings.check()
    counter = Counter(settings.shape(), threads)
    for block in normalized_blocks(texts, settings, column=column, first=first):
        counter.add(block.offsets, block.data, False)
    return _counted(counter, settings)


def gram_counts_in_parts(
    arrays: Iterable[pa.Array], settings: TfidfSettings, most_grams: int, *, threads: int = 1
) -> Iterator[GramCounts]:
    """Counts the texts of all `arrays` in bounded memory: as soon as `most_grams` distinct grams are held, they are
    handed out and counting starts anew."""
    settings.check()
    counter, first = Counter(settings.shape(), threads), 0
    for texts in arrays:
        for block in normalized_blocks(texts, settings, first=first):
            counter.add(block.offsets, block.data, False)
        first += len(texts)
        if counter.held >= most_grams:
            yield _counted(counter, settings)
            counter = Counter(settings.shape(), threads)
    if counter.documents:
        yield _counted(counter, settings)


def _counted(counter: Counter, settings: TfidfSettings) -> GramCounts:
    counter.merge()
    vectorizers, grams, dfs, occurrences = [], [], [], []
    for v in range(len(settings.vectorizers)):
        df, occurring = counter.counts(v)
        offsets, data = counter.grams(v, np.arange(len(df)))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        grams.append(pa.Array.from_buffers(pa.large_string(), len(df), buffers))
        vectorizers.append(np.full(len(df), v, np.uint8))
        dfs.append(df)
        occurrences.append(occurring)
    return GramCounts(
        counter.documents,
        np.concatenate(vectorizers),
        pa.concat_arrays(grams),
        np.concatenate(dfs),
        np.concatenate(occurrences),
    )
