"""The features of a fitted model: which grams they are, in how many documents each occurs, its idf. Decides
which counted grams become features (min_df, max_df, max_features) and in which order."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from xmcspark._native.text import Counter, Lookup, Weights, build_lookup, inverse_document_frequency
from xmcspark.errors import InputError
from xmcspark.text.settings import NORMS, TfidfSettings, Vectorizer

_log = logging.getLogger(__name__)

MOST_FEATURES = 2**31 - 1  # column indices are int32
NO_DOCUMENTS = "the corpus is empty: expected at least one document"


@dataclass(frozen=True)
class Vocabulary:
    """Arrays indexed by feature. A feature without a gram (empty text) is retired: it never occurs."""

    vectorizer: np.ndarray  # uint8: index of the vectorizer it belongs to
    offsets: np.ndarray  # int64[features + 1]; the text of feature f is data[offsets[f]:offsets[f + 1]]
    data: np.ndarray  # uint8, UTF-8
    df: np.ndarray  # int64: documents that hold the gram
    idf: np.ndarray  # float32
    documents: int  # in the corpus
    runs: tuple[tuple[int, int], ...] | None = None  # as `vectorizer_runs` has them, if they are known

    def __len__(self) -> int:
        return len(self.df)

    def gram(self, feature: int) -> str:
        """The text of a feature."""
        return bytes(self.data[self.offsets[feature] : self.offsets[feature + 1]]).decode()

    def grams(self) -> pa.Array:
        """The text of all features, as an Arrow array over the same buffers."""
        buffers = [
            None,
            pa.py_buffer(np.ascontiguousarray(self.offsets)),
            pa.py_buffer(np.ascontiguousarray(self.data)),
        ]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)

    def vectorizer_runs(self) -> tuple[tuple[int, int], ...]:
        """(first feature, vectorizer) of each run of features of one vectorizer: a few for each generation."""
        if self.runs is not None:
            return self.runs
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(self.vectorizer)) + 1]).tolist()
        return tuple((first, int(self.vectorizer[first])) for first in firsts)

    def weights(self, settings: TfidfSettings) -> Weights:
        """How counts of these features become values."""
        runs = self.vectorizer_runs()
        options = [(v.sublinear_tf, v.binary, NORMS.index(v.norm)) for v in settings.vectorizers]
        return Weights(
            self.idf,
            np.array([*(first for first, _ in runs), len(self)], np.int64),
            np.array([vectorizer for _, vectorizer in runs], np.uint8),
            options,
            NORMS.index(settings.joint_norm),
        )

    def lookup(self, settings: TfidfSettings) -> Lookup:
        """The tables that find these grams in a text."""
        active = np.flatnonzero(np.diff(self.offsets) > 0).astype(np.int32)
        offsets = (
            self.offsets
            if len(active) == len(self)
            else np.append(self.offsets[:-1][active], self.offsets[-1])
        )
        try:
            arrays = build_lookup(settings.shape(), self.vectorizer[active], active, offsets, self.data)
        except ValueError as error:
            raise InputError(f"the vocabulary is not usable: {error}") from error
        return Lookup(settings.shape(), arrays, self.weights(settings))


def learned(counter: Counter, settings: TfidfSettings) -> tuple[Vocabulary, list[np.ndarray]]:
    """The vocabulary of a counted corpus, and per vectorizer the feature (or -1) of each counted gram.

    Features are numbered vectorizer by vectorizer, in the order of their grams' bytes (= code points).
    """
    if counter.documents == 0:
        raise InputError(NO_DOCUMENTS)
    counter.merge()
    first = 0
    features, vectorizers, dfs, idfs, texts = [], [], [], [], []
    for v, vectorizer in enumerate(settings.vectorizers):
        df, occurrences = counter.counts(v)
        chosen = kept_grams(df, occurrences, vectorizer, counter.documents)
        if not len(chosen):
            _log.warning(
                "vectorizer %s has no features: it kept none of %d grams", vectorizer.label(), len(df)
            )
        feature = np.full(len(df), -1, np.int32)
        feature[chosen] = np.arange(first, first + len(chosen)).astype(np.int32)
        first += len(chosen)
        features.append(feature)
        vectorizers.append(np.full(len(chosen), v, np.uint8))
        dfs.append(df[chosen])
        idfs.append(idf_of(df[chosen], counter.documents, vectorizer))
        texts.append(counter.grams(v, chosen))
    if first == 0:
        raise InputError(nothing_left(sum(map(len, features))))
    if first > MOST_FEATURES:
        raise InputError(too_many(first))
    vocabulary = Vocabulary(
        np.concatenate(vectorizers),
        _joined_offsets([offsets for offsets, _ in texts]),
        np.concatenate([data for _, data in texts]),
        np.concatenate(dfs),
        np.concatenate(idfs),
        counter.documents,
    )
    return vocabulary, features


def from_rows(
    settings: TfidfSettings,
    vectorizer: Any,
    gram: Any,
    df: Any,
    documents: int,
    *,
    feature: Any = None,
    idf: Any = None,
    size: int | None = None,
) -> Vocabulary:
    """The vocabulary given as rows, such as those of the `vocabulary` table.

    `vectorizer`: index of each row's vectorizer; `gram`: Arrow or other array of strings; `feature`: the
    id of each row, by default its position; `idf`: by default from `df`; `size`: number of features, more
    than there are rows if some are retired.
    """
    of = np.asarray(vectorizer, np.uint8)
    rows_df = np.asarray(df, np.int64)
    text = pa.array(gram) if not isinstance(gram, (pa.Array, pa.ChunkedArray)) else gram
    text = text.cast(pa.large_string())
    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    if not len(of) == len(rows_df) == len(text):
        raise InputError(
            f"{len(of)} vectorizers, {len(text)} grams and {len(rows_df)} df: expected as many of each"
        )
    if len(of) and (of.max() >= len(settings.vectorizers) or rows_df.min() < 1 or rows_df.max() > documents):
        raise InputError(
            f"expected vectorizers below {len(settings.vectorizers)} and df from 1 to {documents}"
        )
    if not len(of):
        raise InputError("the vocabulary has no rows: was the corpus empty?")
    ids = np.arange(len(of)) if feature is None else np.asarray(feature, np.int64)
    total = int(ids.max(initial=-1)) + 1 if size is None else size
    row = _row_of_feature(ids, len(of), total)
    if idf is None:
        idf = _row_idf(settings, of, rows_df, documents)
    columns: tuple[np.ndarray, ...] = (of, rows_df, np.asarray(idf, np.float32))
    if not np.array_equal(row, np.arange(len(of))):
        text = text.take(pa.array(row, mask=row < 0)).fill_null("")
        columns = tuple(_spread(column, row) for column in columns)
    return Vocabulary(columns[0], *_buffers(text), columns[1], columns[2], documents)


def _row_of_feature(ids: np.ndarray, rows: int, features: int) -> np.ndarray:
    """The row that has each feature, -1 if none has; InputError unless `ids` are distinct and in range."""
    row = np.full(features, -1, np.int64)
    if len(ids) == rows and ids.min() >= 0 and ids.max() < features:
        row[ids] = np.arange(len(ids))
    if np.count_nonzero(row >= 0) < len(ids):
        raise InputError(f"feature ids must be distinct, one per row, from 0 to {features - 1}")
    return row


def _row_idf(settings: TfidfSettings, vectorizer: np.ndarray, df: np.ndarray, documents: int) -> np.ndarray:
    idf = np.zeros(len(df), np.float32)
    for v, options in enumerate(settings.vectorizers):
        idf[vectorizer == v] = idf_of(df[vectorizer == v], documents, options)
    return idf


def _spread(values: np.ndarray, row: np.ndarray) -> np.ndarray:
    """values[row], 0 where there is no row."""
    spread: np.ndarray = np.append(values, values.dtype.type(0))[row]
    return spread


def _buffers(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    _, offsets, data = text.buffers()
    start = np.frombuffer(offsets, np.int64, len(text) + 1 + text.offset)[text.offset :]
    return start, np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)


def kept_grams(df: np.ndarray, occurrences: np.ndarray, vectorizer: Vectorizer, documents: int) -> np.ndarray:
    """Positions of the grams that become features, increasing: df within bounds, then the `max_features` most
    frequent, of equally frequent ones the first."""
    low, high = df_bounds(vectorizer, documents)
    chosen = np.flatnonzero((df >= low) & (df <= high))
    if vectorizer.max_features is not None and len(chosen) > vectorizer.max_features:
        by_frequency = np.argsort(-occurrences[chosen], kind="stable")
        chosen = np.sort(chosen[by_frequency[: vectorizer.max_features]])
    return chosen.astype(np.int64, copy=False)


def df_bounds(vectorizer: Vectorizer, documents: int) -> tuple[float, float]:
    """(fewest, most) documents that may hold a feature; InputError if there is nothing between."""
    low, high = (_documents(bound, documents) for bound in (vectorizer.min_df, vectorizer.max_df))
    if high < low:
        raise InputError(
            f"vectorizer {vectorizer.label()}: max_df={vectorizer.max_df} is fewer of the {documents} "
            f"documents than min_df={vectorizer.min_df}: lower min_df or raise max_df"
        )
    return low, high


def _documents(bound: int | float, documents: int) -> float:
    return bound * documents if isinstance(bound, float) else bound


def idf_of(df: np.ndarray, documents: int, vectorizer: Vectorizer) -> np.ndarray:
    """Inverse document frequencies; ones if the vectorizer does not use them."""
    if not vectorizer.use_idf:
        return np.ones(len(df), np.float32)
    return inverse_document_frequency(df, documents, vectorizer.smooth_idf)


def _joined_offsets(parts: list[np.ndarray]) -> np.ndarray:
    lengths = np.concatenate([np.diff(offsets) for offsets in parts])
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def too_many(features: int) -> str:
    return f"{features} features, more than {MOST_FEATURES}: raise min_df or set max_features"


def nothing_left(counted: int) -> str:
    """Why a vocabulary of `counted` grams ended empty."""
    if counted == 0:
        return "no document holds a gram of any vectorizer: are the texts empty, or shorter than ngram_range?"
    return f"min_df, max_df and max_features leave none of {counted} grams: lower min_df or raise max_df"
