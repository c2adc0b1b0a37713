"""The settings of hybrid TF-IDF and what values they may take. Problems are collected, not raised one by
one, so that a user sees all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xmcspark.errors import ConfigError

ANALYZERS = ("word", "char_wb", "char")  # in the order of native/text_reader.h
NORMS = (None, "l1", "l2")  # in the order of native/text_rows.h
NORMALIZATIONS = ("nfkc", "lower", "none")
_MAX_N = 2**31 - 1


@dataclass(frozen=True)
class Vectorizer:
    """One kind of grams. The options mean what they mean in scikit-learn's TfidfVectorizer."""

    analyzer: str = "word"  # "word", "char_wb" (within words, padded with a space) or "char"
    ngram_range: tuple[int, int] = (1, 2)  # shortest and longest gram, in words or characters
    min_df: int | float = 1  # int: documents; float in [0, 1]: share of documents
    max_df: int | float = 1.0
    max_features: int | None = None  # the most frequent ones; ties: first in the order of the grams
    sublinear_tf: bool = False  # 1 + log(tf) instead of tf
    smooth_idf: bool = True  # as if one more document held every gram once
    use_idf: bool = True
    binary: bool = False  # tf is 1 or 0
    norm: str | None = "l2"  # "l2", "l1" or None, over this vectorizer's part of a row
    name: str | None = None  # in the vocabulary; made from analyzer and ngram_range if None

    def label(self) -> str:
        """The name, or one made from the settings."""
        return self.name or f"{self.analyzer}_{self.ngram_range[0]}_{self.ngram_range[1]}"

    def problems(self, where: str) -> list[str]:
        """What is wrong with the settings; empty if nothing is."""
        found = []
        if self.analyzer not in ANALYZERS:
            found.append(f"{where}.analyzer is {self.analyzer!r}: expected one of {', '.join(ANALYZERS)}")
        if not _is_range(self.ngram_range):
            found.append(
                f"{where}.ngram_range is {self.ngram_range!r}: expected (shortest, longest) with "
                "1 <= shortest <= longest"
            )
        found += [
            f"{where}.{key} is {getattr(self, key)!r}: expected an int >= 1 (documents) or a float from 0.0 "
            "to 1.0 (share of documents)"
            for key in ("min_df", "max_df")
            if not _is_document_bound(getattr(self, key))
        ]
        if self.max_features is not None and not (_is_int(self.max_features) and self.max_features >= 1):
            found.append(
                f"{where}.max_features is {self.max_features!r}: expected an int >= 1, or None for all"
            )
        if self.norm not in NORMS:
            found.append(f"{where}.norm is {self.norm!r}: expected 'l2', 'l1' or None")
        found += [
            f"{where}.{key} is {getattr(self, key)!r}: expected true or false"
            for key in ("sublinear_tf", "smooth_idf", "use_idf", "binary")
            if not isinstance(getattr(self, key), bool)
        ]
        if self.name is not None and not isinstance(self.name, str):
            found.append(f"{where}.name is {self.name!r}: expected a string or None")
        return found


DEFAULT_VECTORIZERS = (Vectorizer("word", (1, 2)), Vectorizer("char_wb", (3, 3)))


@dataclass(frozen=True)
class TfidfSettings:
    """Everything that decides the features of a text, apart from the corpus."""

    vectorizers: tuple[Vectorizer, ...] = DEFAULT_VECTORIZERS
    normalize: str = (
        "nfkc"  # "nfkc" (Unicode words), "lower" (exactly scikit-learn), "none" (as lower, case kept)
    )
    joint_norm: str | None = "l2"  # norm of the whole row, after those of the vectorizers
    invalid: str = "error"  # invalid UTF-8: "error" or "replace" (by U+FFFD)
    nulls: str = "error"  # missing texts: "error" or "empty" (an empty document)

    def problems(self) -> list[str]:
        """What is wrong with the settings; empty if nothing is."""
        found = []
        if not 1 <= len(self.vectorizers) <= 255:
            found.append(f"vectorizers has {len(self.vectorizers)} entries: expected 1 to 255")
        for index, vectorizer in enumerate(self.vectorizers):
            if isinstance(vectorizer, Vectorizer):
                found += vectorizer.problems(f"vectorizers[{index}]")
            else:
                found.append(f"vectorizers[{index}] is {vectorizer!r}: expected a Vectorizer")
        given = [v.name for v in self.vectorizers if isinstance(v, Vectorizer) and v.name is not None]
        if len(set(given)) < len(given):
            found.append(f"vectorizers have names {given}: expected each name once")
        choices: tuple[tuple[str, Sequence[Any]], ...] = (
            ("normalize", NORMALIZATIONS),
            ("joint_norm", NORMS),
            ("invalid", ("error", "replace")),
            ("nulls", ("error", "empty")),
        )
        for key, allowed in choices:
            if getattr(self, key) not in allowed:
                found.append(
                    f"{key} is {getattr(self, key)!r}: expected one of {', '.join(map(repr, allowed))}"
                )
        return found

    def check(self) -> None:
        """Raises ConfigError with all the problems, if there are any."""
        if found := self.problems():
            raise ConfigError(found)

    def names(self) -> list[str]:
        """One distinct name per vectorizer."""
        labels = [v.label() for v in self.vectorizers]
        return [
            label if labels.index(label) == index else f"{label}.{index}"
            for index, label in enumerate(labels)
        ]

    def shape(self) -> tuple[int, bool, list[tuple[int, int, int]]]:
        """The settings the native reader needs: word rule, lower-casing, (analyzer, min_n, max_n) each."""
        vectorizers = [
            (ANALYZERS.index(v.analyzer), min(v.ngram_range[0], _MAX_N), min(v.ngram_range[1], _MAX_N))
            for v in self.vectorizers
        ]
        return int(self.normalize == "nfkc"), self.normalize != "none", vectorizers

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_dict(settings: dict[str, Any]) -> TfidfSettings:
        """Settings from JSON; ConfigError for unknown keys and wrong values."""
        try:
            vectorizers = tuple(
                Vectorizer(**{**v, "ngram_range": tuple(v["ngram_range"])}) for v in settings["vectorizers"]
            )
            made = TfidfSettings(**{**settings, "vectorizers": vectorizers})
        except (TypeError, KeyError) as error:
            raise ConfigError([f"unusable TF-IDF settings: {error}"]) from error
        made.check()
        return made


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: object) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(_is_int(n) for n in value):
        return False
    return bool(1 <= value[0] <= value[1])


def _is_document_bound(value: object) -> bool:
    if isinstance(value, float):
        return 0.0 <= value <= 1.0
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
