"""Hybrid TF-IDF: several vectorizers, each learned on its own, side by side in one row. With
normalize="lower" and joint_norm=None the result is scikit-learn's."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark._native.text import Counter, Lookup
from xmcspark.errors import ConfigError, InputError
from xmcspark.sparse.csr import Csr
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.text.normalize import NORMALIZERS, normalized_blocks
from xmcspark.text.settings import DEFAULT_VECTORIZERS, TfidfSettings, Vectorizer
from xmcspark.text.vocabulary import Vocabulary, from_rows, learned

_KIND = "TF-IDF model"  # as saved
_VERSION = 2  # 1 did not list runs of features
_VOCABULARY_ARRAYS = ("vectorizer", "offsets", "data", "df", "idf")
_MAX_THREADS = 1024


class Tfidf:
    """Turns texts into sparse rows.

    >>> model = Tfidf([Vectorizer("word", (1, 2)), Vectorizer("char_wb", (3, 3))])
    >>> X = model.fit_transform(["red running shoes", "blue shoes"])
    >>> model.transform(["red shoes"]).shape == (1, model.n_features)
    True

    Texts are an iterable of str or bytes, a numpy, pandas or Arrow array, or a `pathlib.Path` to a file with
    one document a line or to Parquet (see `xmcspark.text.sources`). Settings are described in
    `xmcspark.text.settings`. The result does not depend on `threads`.
    """

    def __init__(
        self,
        vectorizers: Sequence[Vectorizer] = DEFAULT_VECTORIZERS,
        *,
        normalize: str = "nfkc",
        joint_norm: str | None = "l2",
        invalid: str = "error",
        nulls: str = "error",
        threads: int = 1,
    ):
        self.settings = TfidfSettings(tuple(vectorizers), normalize, joint_norm, invalid, nulls)
        found = self.settings.problems()
        if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= _MAX_THREADS:
            found.append(f"threads is {threads!r}: expected an int from 1 to {_MAX_THREADS}")
        if found:
            raise ConfigError(found)
        self.threads = threads
        self._vocabulary: Vocabulary | None = None
        self._lookup: Lookup | None = None

    # ------------------------------------------------------------------------------------------- fitting

    def fit(self, texts: Any, *, column: str = "text") -> Tfidf:
        """Learns the features from the corpus, in memory that grows with its distinct grams only."""
        self._fit(texts, column, keep_rows=False)
        return self

    def fit_transform(self, texts: Any, *, column: str = "text") -> sp.csr_matrix:
        """`fit`, and the matrix of the same texts without reading them twice."""
        return self.fit_rows(texts, column=column).to_scipy()

    def fit_rows(self, texts: Any, *, column: str = "text") -> Csr:
        """As `fit_transform`, in the form the kernels take."""
        counter, features = self._fit(texts, column, keep_rows=True)
        indptr, indices, data = counter.rows(features, self.vocabulary.weights(self.settings))
        return Csr(indptr, indices, data, (len(indptr) - 1, self.n_features))

    def _fit(self, texts: Any, column: str, *, keep_rows: bool) -> tuple[Counter, list[np.ndarray]]:
        counter = Counter(self.settings.shape(), self.threads)
        for block in normalized_blocks(texts, self.settings, column=column):
            counter.add(block.offsets, block.data, keep_rows)
        self._vocabulary, features = learned(counter, self.settings)
        self._lookup = None
        return counter, features

    @staticmethod
    def from_vocabulary(settings: TfidfSettings, *, threads: int = 1, **rows: Any) -> Tfidf:
        """A fitted model from the rows of a vocabulary, such as Spark counted them; `rows` are the arguments
        of `xmcspark.text.vocabulary.from_rows`."""
        model = Tfidf(
            settings.vectorizers,
            normalize=settings.normalize,
            joint_norm=settings.joint_norm,
            invalid=settings.invalid,
            nulls=settings.nulls,
            threads=threads,
        )
        model._vocabulary = from_rows(settings, **rows)
        model._lookup = model._vocabulary.lookup(settings)
        return model

    # -------------------------------------------------------------------------------------- transforming

    def transform(self, texts: Any, *, column: str = "text") -> sp.csr_matrix:
        """One row per text. A text without known grams is an empty row."""
        return self.rows(texts, column=column).to_scipy()

    def rows(self, texts: Any, *, column: str = "text") -> Csr:
        """As `transform`, in the form the kernels take."""
        blocks = list(self.transform_blocks(texts, column=column))
        if len(blocks) == 1:
            return blocks[0]
        if not blocks:
            return Csr(
                np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), (0, self.n_features)
            )
        starts = np.cumsum([0, *(block.nnz for block in blocks)])
        pointers = [block.indptr[1:] + start for block, start in zip(blocks, starts, strict=False)]
        return Csr(
            np.concatenate([np.zeros(1, np.int64), *pointers]),
            np.concatenate([block.indices for block in blocks]),
            np.concatenate([block.data for block in blocks]),
            (sum(block.shape[0] for block in blocks), self.n_features),
        )

    def transform_blocks(self, texts: Any, *, column: str = "text") -> Iterator[Csr]:
        """The rows of `transform`, block after block, for sources larger than memory."""
        lookup = self._ready()
        for block in normalized_blocks(texts, self.settings, column=column):
            indptr, indices, data = lookup.rows(block.offsets, block.data, self.threads)
            yield Csr(indptr, indices, data, (len(block), self.n_features))

    def transform_one(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """(features, values) of a single text: the fast path for queries."""
        lookup = self._lookup or self._ready()
        if not isinstance(text, str):
            raise InputError(f"the text is a {type(text).__name__}: expected str")
        if not text.isascii():
            text = NORMALIZERS[self.settings.normalize](text)
        try:
            return lookup.row(text)
        except UnicodeEncodeError as error:
            raise InputError(f"the text holds half of a surrogate pair at character {error.start}") from error

    def _ready(self) -> Lookup:
        if self._lookup is None:
            self._lookup = self.vocabulary.lookup(self.settings)
        return self._lookup

    # ---------------------------------------------------------------------------------------- vocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """The features as arrays; InputError before `fit`."""
        if self._vocabulary is None:
            raise InputError("this Tfidf has not been fitted: call fit or fit_transform, or load a saved one")
        return self._vocabulary

    @property
    def n_features(self) -> int:
        """Columns of the matrix."""
        return len(self.vocabulary)

    def gram(self, feature: int) -> tuple[str, str]:
        """(name of the vectorizer, gram) of a feature."""
        if not 0 <= feature < self.n_features:
            raise InputError(f"feature {feature} does not exist: there are {self.n_features}")
        name = self.settings.names()[int(self.vocabulary.vectorizer[feature])]
        return name, self.vocabulary.gram(feature)

    def feature(self, vectorizer: int | str, gram: str) -> int | None:
        """The feature of a gram of a vectorizer (index or name), None if it has none."""
        names = self.settings.names()
        index = names.index(vectorizer) if vectorizer in names else vectorizer
        if not isinstance(index, int) or not 0 <= index < len(names):
            raise InputError(f"there is no vectorizer {vectorizer!r}: expected an index or one of {names}")
        found = self._ready().feature(index, gram)
        return None if found < 0 else found

    # ------------------------------------------------------------------------------------------- storage

    def save(self, folder: str | Path) -> None:
        """Writes the model to a folder, which is made if need be."""
        vocabulary = self.vocabulary
        arrays = {f"vocabulary.{name}": getattr(vocabulary, name) for name in _VOCABULARY_ARRAYS}
        arrays.update({f"lookup.{name}": array for name, array in self._ready().arrays.items()})
        header = {
            "settings": self.settings.to_dict(),
            "documents": vocabulary.documents,
            "runs": vocabulary.vectorizer_runs(),  # so that opening need not look for them
            "unicode": unicodedata.unidata_version,  # that texts were normalized with
        }
        save_arrays(Path(folder), _KIND, _VERSION, header, arrays)

    @staticmethod
    def load(folder: str | Path, *, threads: int = 1) -> Tfidf:
        """Opens a saved model in milliseconds: its arrays are mapped, not read."""
        header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        try:
            settings = TfidfSettings.from_dict(header["settings"])
            vocabulary = Vocabulary(
                documents=header["documents"],
                runs=tuple((first, vectorizer) for first, vectorizer in header["runs"]),
                **{name: arrays[f"vocabulary.{name}"] for name in _VOCABULARY_ARRAYS},
            )
            tables = {
                name.removeprefix("lookup."): a for name, a in arrays.items() if name.startswith("lookup.")
            }
            model = Tfidf(
                settings.vectorizers,
                normalize=settings.normalize,
                joint_norm=settings.joint_norm,
                invalid=settings.invalid,
                nulls=settings.nulls,
                threads=threads,
            )
            model._vocabulary = vocabulary
            model._lookup = Lookup(settings.shape(), tables, vocabulary.weights(settings))
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{folder} is not a usable {_KIND}: {error}") from error
        return model
