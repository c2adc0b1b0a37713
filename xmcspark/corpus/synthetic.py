"""A seeded generator of short product queries with topical labels, at any number of instances and labels.
It decides what the synthetic benchmark looks like: Zipfian words and label popularity, 3-8 words a query,
about 1.9 labels a row, and enough noise that a linear model gets roughly 70% of its first guesses right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xmcspark.corpus.dataset import Dataset, Split
from xmcspark.errors import InputError

_CONSONANTS = np.frombuffer(b"tnrslkmdpbgvfzhcwjxq", np.uint8)
_VOWELS = np.frombuffer(b"aeiou", np.uint8)
# No two shapes are as long, so words of different shapes cannot collide.
_SHAPES = ("cvcvc", "cvcvcv", "cvcvcvc", "cvcvcvcv", "cvcvcvcvc")
_MIXED_LENGTHS = 400_000  # word ids from here on all take the longest shape, which has room for 2 * 10^9
_MIN_WORDS, _MAX_WORDS = 3, 8
_WORDS_PER_LABEL = 5  # type, brand, two attributes, model
_LABELS_PER_TYPE = 40


@dataclass(frozen=True)
class Shape:
    """How hard the corpus is. The defaults give a linear model P@1 of about 0.72 at 50k x 10k."""

    label_zipf: float = 0.75  # exponent of the labels' popularity
    word_zipf: float = 1.0  # exponent of the words within brands, attributes and common words
    topical: float = 0.65  # chance that a word of a query comes from its first label
    extra_labels: float = 1.0  # mean number of labels a row has besides its first
    related: float = 0.75  # chance that such a label is of the same type as the first


def generate(n_instances: int, n_labels: int, seed: int = 0, shape: Shape | None = None) -> Dataset:
    """`n_instances` training queries over `n_labels` labels, plus a test split of 10% (at most 30k rows).

    Every label has a training row if n_instances >= n_labels. Same arguments, same corpus.
    """
    if n_instances < 1 or n_labels < 1:
        raise InputError(f"cannot generate {n_instances} x {n_labels}: at least one instance and one label")
    if n_labels >= 2**31 or n_instances >= 2**31:
        raise InputError(f"cannot generate {n_instances} x {n_labels}: each must be below 2^31")
    shape = shape or Shape()
    rng = np.random.default_rng([seed, n_instances, n_labels])
    n_test = min(max(n_instances // 10, 1), 30_000)
    lexicon = _Lexicon(n_labels)
    label_words = _label_words(rng, lexicon, n_labels, shape)
    popularity = _Zipf(n_labels, shape.label_zipf)
    by_rank = rng.permutation(n_labels).astype(np.int32)
    parts = []
    for rows, prefix in ((n_instances, "train"), (n_test, "test")):
        first = by_rank[popularity.draw(rng, rows)]
        if prefix == "train":
            _cover(rng, first, n_labels)
        Y = _labels_of_rows(rng, first, by_rank, popularity, n_labels, shape)
        texts = _texts_of_rows(rng, lexicon, label_words[first], shape)
        parts.append(Split(_ids(prefix, rows), texts, Y))
    return Dataset(parts[0], parts[1], _join_words(lexicon, label_words), None)


class _Zipf:
    """Ranks 0..n-1 with probability proportional to (rank + 2.7)^-exponent (Mandelbrot's shift)."""

    def __init__(self, n: int, exponent: float):
        weights = (np.arange(n) + 2.7) ** -exponent
        self._cumulative = np.cumsum(weights)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        ranks = np.searchsorted(self._cumulative, rng.random(size) * self._cumulative[-1], side="right")
        capped: np.ndarray = np.minimum(ranks, len(self._cumulative) - 1)
        return capped


class _Lexicon:
    """Which word ids are common words, types, brands, attributes and models: consecutive ranges."""

    def __init__(self, n_labels: int):
        sizes = {
            "common": min(2000, 200 + n_labels // 10),
            "type": n_labels // _LABELS_PER_TYPE + 1,
            "brand": n_labels // 10 + 20,
            "attribute": n_labels // 10 + 50,
            "model": n_labels // 2 + 1,
        }
        starts = np.cumsum([0, *sizes.values()])
        self.start = dict(zip(sizes, starts[:-1].tolist(), strict=True))
        self.size = sizes
        self.bytes, self.lengths = _spell(int(starts[-1]))


def _spell(n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """All words as rows of letters (uint8, padded) and their lengths. Word ids map one to one to words."""
    ids = np.arange(n_words, dtype=np.int64)
    longest = len(_SHAPES) - 1
    kind = np.where(ids < _MIXED_LENGTHS, ids % longest, longest)
    number = np.where(kind < longest, ids // longest, ids)
    letters = np.zeros((n_words, len(_SHAPES[-1])), np.uint8)
    for k, pattern in enumerate(_SHAPES):
        chosen = np.flatnonzero(kind == k)
        radix = [20 if c == "c" else 5 for c in pattern]
        room = int(np.prod(radix))
        # Near the golden section of the room, so that all letters change from word to word; ending in 3, it
        # shares no factor with a product of 2s and 5s, so the scramble is one to one.
        rest = number[chosen] * (int(room * 0.618) // 10 * 10 + 3) % room
        for position, (c, base) in enumerate(zip(pattern, radix, strict=True)):
            alphabet = _CONSONANTS if c == "c" else _VOWELS
            letters[chosen, position] = alphabet[rest % base]
            rest //= base
    return letters, np.array([len(p) for p in _SHAPES])[kind]


def _label_words(rng: np.random.Generator, lexicon: _Lexicon, n_labels: int, shape: Shape) -> np.ndarray:
    """The topical words of each label: int64[n_labels, _WORDS_PER_LABEL]."""
    words = np.empty((n_labels, _WORDS_PER_LABEL), np.int64)
    words[:, 0] = lexicon.start["type"] + np.arange(n_labels) // _LABELS_PER_TYPE
    for column, kind in enumerate(("brand", "attribute", "attribute"), start=1):
        zipf = _Zipf(lexicon.size[kind], shape.word_zipf)
        words[:, column] = lexicon.start[kind] + zipf.draw(rng, n_labels)
    words[:, 4] = lexicon.start["model"] + rng.integers(0, lexicon.size["model"], n_labels)
    return words


def _cover(rng: np.random.Generator, first: np.ndarray, n_labels: int) -> None:
    """Give labels that no row drew a row of a label that has others (in place), as far as rows go."""
    seen, kept = np.unique(first, return_index=True)
    missing = np.setdiff1d(np.arange(n_labels, dtype=first.dtype), seen, assume_unique=True)
    spare = np.setdiff1d(np.arange(len(first)), kept, assume_unique=True)
    n = min(len(missing), len(spare))
    first[rng.choice(spare, n, replace=False)] = missing[:n]


def _labels_of_rows(
    rng: np.random.Generator,
    first: np.ndarray,
    by_rank: np.ndarray,
    popularity: _Zipf,
    n_labels: int,
    shape: Shape,
) -> sp.csr_matrix:
    """Y: each row's first label, and others of the same type or just popular."""
    n_extra = np.minimum(rng.poisson(shape.extra_labels, len(first)), 5)
    row = np.repeat(np.arange(len(first)), n_extra)
    start = first[row] // _LABELS_PER_TYPE * _LABELS_PER_TYPE
    size = np.minimum(start + _LABELS_PER_TYPE, n_labels) - start
    neighbour = start + (first[row] - start + rng.geometric(0.5, len(row))) % size
    other = by_rank[popularity.draw(rng, len(row))]
    extra = np.where(rng.random(len(row)) < shape.related, neighbour, other)
    rows = np.concatenate([np.arange(len(first)), row])
    columns = np.concatenate([first, extra])
    Y = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(first), n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y


def _texts_of_rows(
    rng: np.random.Generator, lexicon: _Lexicon, topical: np.ndarray, shape: Shape
) -> pa.Array:
    """One query per row of `topical` (the words of its first label), mixed with common words."""
    n_words = rng.integers(_MIN_WORDS, _MAX_WORDS + 1, len(topical))
    row = np.repeat(np.arange(len(topical)), n_words)
    common = _Zipf(lexicon.size["common"], shape.word_zipf)
    words = lexicon.start["common"] + common.draw(rng, len(row))
    own = rng.random(len(row)) < shape.topical
    starts = np.concatenate([[0], np.cumsum(n_words)])
    place = rng.integers(0, _WORDS_PER_LABEL, len(topical))[row] + np.arange(len(row)) - starts[row]
    words[own] = topical[row[own], place[own] % _WORDS_PER_LABEL]
    return _join(lexicon, words, starts)


def _join_words(lexicon: _Lexicon, label_words: np.ndarray) -> pa.Array:
    return _join(lexicon, label_words.ravel(), np.arange(len(label_words) + 1) * _WORDS_PER_LABEL)


def _join(lexicon: _Lexicon, words: np.ndarray, starts: np.ndarray) -> pa.Array:
    """Texts of words separated by spaces; text i has words[starts[i]:starts[i + 1]], never empty."""
    lengths = lexicon.lengths[words]
    width = lexicon.bytes.shape[1]
    last = np.zeros(len(words), bool)
    last[starts[1:] - 1] = True
    letters = np.full((len(words), width + 1), ord(" "), np.uint8)
    letters[:, :width] = lexicon.bytes[words]
    taken = np.arange(width + 1) < lengths[:, None]
    taken[np.arange(len(words)), lengths] = ~last
    letters[np.arange(len(words)), lengths] = ord(" ")
    ends = np.concatenate([[0], np.cumsum(lengths + ~last)])[starts]
    buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(letters[taken])]
    return pa.Array.from_buffers(pa.large_string(), len(starts) - 1, buffers)


def _ids(prefix: str, n: int) -> pa.Array:
    digits = np.arange(n).astype("U")
    return pa.array(np.char.add(f"{prefix}-", digits))
