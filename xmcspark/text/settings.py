"""The settings of hybrid TF-IDF and what values they may take. Problems are collected, not raised one by
one, so that a user sees all of them at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from xmcspark.config.setting import Rule, problems_of, setting
from xmcspark.errors import ConfigError

ANALYZERS = ("word", "char_wb", "char")  # in the order of native/text_reader.h
NORMS = (None, "l1", "l2")  # in the order of native/text_rows.h
NORMALIZATIONS = ("nfkc", "lower", "none")
_MAX_N = 2**31 - 1


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: object) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(_is_int(n) for n in value):
        return False
    return bool(1 <= value[0] <= value[1])


def _is_some_of_many(value: object) -> bool:
    return isinstance(value, (tuple, list)) and 1 <= len(value) <= 255


def _is_document_bound(value: object) -> bool:
    if isinstance(value, float):
        return 0.0 <= value <= 1.0
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_RANGE = Rule(_is_range, "(shortest, longest) with 1 <= shortest <= longest")
_DOCUMENTS = Rule(
    _is_document_bound, "an int >= 1 (documents) or a float from 0.0 to 1.0 (share of documents)"
)
_LIKE = "scikit-learn"


@dataclass(frozen=True)
class Vectorizer:
    """One kind of grams. The options mean what they mean in scikit-learn's TfidfVectorizer."""

    analyzer: str = setting(
        "word",
        "What grams are made of: words, characters within words padded with a space (char_wb), or characters.",
        source=_LIKE,
        choices=ANALYZERS,
    )
    ngram_range: tuple[int, int] = setting(
        (1, 2), "Lengths of the grams, in words or characters.", rule=_RANGE
    )
    min_df: int | float = setting(1, "Leave out grams of fewer documents.", source=_LIKE, rule=_DOCUMENTS)
    max_df: int | float = setting(1.0, "Leave out grams of more documents.", source=_LIKE, rule=_DOCUMENTS)
    max_features: int | None = setting(
        None,
        "Keep only so many grams, the most frequent; ties go to the first in the order of the grams.",
        source=_LIKE,
        minimum=1,
    )
    sublinear_tf: bool = setting(False, "Use 1 + log(tf) instead of tf.", source=_LIKE)
    smooth_idf: bool = setting(True, "Count as if one more document held every gram once.", source=_LIKE)
    use_idf: bool = setting(True, "Weigh grams by how few documents hold them.", source=_LIKE)
    binary: bool = setting(False, "Use 1 instead of tf.", source=_LIKE)
    norm: str | None = setting("l2", "Norm of this vectorizer's part of a row.", source=_LIKE, choices=NORMS)
    name: str | None = setting(
        None, "Its name in the vocabulary; null makes one from analyzer and ngram_range."
    )

    def label(self) -> str:
        """The name, or one made from the settings."""
        return self.name or f"{self.analyzer}_{self.ngram_range[0]}_{self.ngram_range[1]}"


DEFAULT_VECTORIZERS = (Vectorizer("word", (1, 2)), Vectorizer("char_wb", (3, 3)))


@dataclass(frozen=True)
class TfidfSettings:
    """Everything that decides the features of a text, apart from the corpus."""

    vectorizers: tuple[Vectorizer, ...] = setting(
        DEFAULT_VECTORIZERS,
        "Kinds of grams, learned each on its own, side by side in a row.",
        rule=Rule(_is_some_of_many, "a list of 1 to 255 entries"),
    )
    normalize: str = setting(
        "nfkc",
        "How texts are normalized: nfkc (Unicode words), lower (exactly scikit-learn) or none (as lower, case "
        "kept).",
        choices=NORMALIZATIONS,
    )
    joint_norm: str | None = setting(
        "l2", "Norm of the whole row, after those of the vectorizers.", choices=NORMS
    )
    invalid: str = setting(
        "error", "What to do with invalid UTF-8: stop, or replace it by U+FFFD.", choices=("error", "replace")
    )
    nulls: str = setting(
        "error",
        "What to do with missing texts: stop, or take them as empty documents.",
        choices=("error", "empty"),
    )

    def problems(self) -> list[str]:
        """What is wrong with the settings; empty if nothing is."""
        found = problems_of(self)
        if not isinstance(self.vectorizers, (tuple, list)):
            return found
        for index, vectorizer in enumerate(self.vectorizers):
            if isinstance(vectorizer, Vectorizer):
                found += problems_of(vectorizer, f"vectorizers[{index}]")
            else:
                found.append(f"vectorizers[{index}] is {vectorizer!r}: expected a Vectorizer")
        given = [v.name for v in self.vectorizers if isinstance(v, Vectorizer) and isinstance(v.name, str)]
        if len(set(given)) < len(given):
            found.append(f"vectorizers have names {given}: expected each name once")
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
