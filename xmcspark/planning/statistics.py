"""The numbers of a corpus that the cost of a run depends on: which must be known, and how the others are guessed from
them. Every number carries where it came from, so that a plan can say what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from xmcspark.config.configuration import Config
from xmcspark.errors import ConfigError
from xmcspark.planning.costs import Guesses
from xmcspark.planning.label_spread import capped_pairs, exponent_for, zipf_total
from xmcspark.text.settings import TfidfSettings

_VOCABULARY_GROWTH = 0.9  # features grow with this power of the entries of X; 0.84 to 1.03 was measured
_LETTERS_PER_WORD = 6.0  # and a space
_GROUP_BYTES = (
    16 << 20
)  # of a row group, as most writers make them or tasks cut them (store/direct_tables.py)


def _number(meaning: str) -> Any:
    return field(metadata={"meaning": meaning})


@dataclass(frozen=True)
class Statistics:
    """All of them, known or guessed."""

    instances: int = _number("training instances")
    labels: int = _number("labels that can be predicted")
    pairs: int = _number("pairs of a training instance and one of its labels")
    test_instances: int = _number("instances to predict and evaluate on")
    log_records: int = _number("lines of raw logs to ingest")
    row_groups: int = _number("row groups of the training instances' files, which tasks share out")
    characters: float = _number("characters of a text, on average")
    row_features: float = _number("non-zero features of an instance, on average")
    features: int = _number("features in all")
    most_positives: int = _number("training instances of the most frequent label")
    label_entries: int = _number("non-zero features of all labels (PIFA)")

    @property
    def labels_per_row(self) -> float:
        return self.pairs / self.instances

    @property
    def entries(self) -> float:
        """Of X."""
        return self.instances * self.row_features

    @property
    def top_share(self) -> float:
        """Of all pairs, those of the most frequent label."""
        return self.most_positives / self.pairs


@dataclass(frozen=True)
class Fact:
    """A number and where it came from."""

    value: float
    source: str


Facts = Mapping[str, Fact]
MEANINGS = {one.name: str(one.metadata["meaning"]) for one in fields(Statistics)}
NEEDED = ("instances", "labels", "pairs")
_WHOLE = [one.name for one in fields(Statistics) if one.type == "int"]


def completed(known: Facts, config: Config, guesses: Guesses) -> tuple[Statistics, Facts]:
    """All statistics, and for each where it came from. ConfigError names all that is missing or impossible."""
    problems = _problems(known)
    if problems:
        raise ConfigError(problems)
    facts = dict(known)
    found = {name: fact.value for name, fact in known.items()}

    def guess(name: str, value: float, how: str) -> None:
        if name not in found:
            value = float(round(value)) if name in _WHOLE else value
            found[name] = value
            facts[name] = Fact(value, f"guessed: {how}")

    guess("test_instances", 0, "none")
    guess("log_records", 0, "none")
    guess("characters", guesses.characters, "as in the runs that were measured")
    size = found["instances"] * found["characters"]
    guess("row_groups", max(1.0, size // _GROUP_BYTES), "of 16 MB each")
    grams = expected_grams(found["characters"], config.text)
    guess("row_features", max(1.0, guesses.features_per_gram * grams), "from characters and text.vectorizers")
    entries = found["instances"] * found["row_features"]
    guess("features", _expected_features(entries, config.text, guesses), "from entries")
    top = found["pairs"] * top_share(int(found["labels"]), guesses.zipf)
    guess("most_positives", min(found["instances"], max(1.0, top)), "from the labels' distribution")
    guess("label_entries", _label_entries(found, config, guesses), "from pairs and row_features")
    numbers = {name: int(found[name]) if name in _WHOLE else float(found[name]) for name in MEANINGS}
    return Statistics(**numbers), {name: facts[name] for name in MEANINGS}  # type: ignore[arg-type]


def top_share(labels: int, exponent: float) -> float:
    """Of the most frequent of so many labels, if their frequencies fall with that power of the rank."""
    return 1.0 / zipf_total(labels, exponent)


def expected_grams(characters: float, text: TfidfSettings) -> float:
    """Grams of a text of so many characters, with repeats."""
    words = max(1.0, characters / (_LETTERS_PER_WORD + 1))
    total = 0.0
    for options in text.vectorizers:
        low, high = options.ngram_range
        for n in range(low, high + 1):
            if options.analyzer == "word":
                total += max(0.0, words - n + 1)
            elif options.analyzer == "char_wb":  # a space on either side of a word belongs to it
                total += words * max(1.0, _LETTERS_PER_WORD + 3 - n)
            else:
                total += max(0.0, characters - n + 1)
    return total


def _expected_features(entries: float, text: TfidfSettings, guesses: Guesses) -> float:
    features = max(1.0, guesses.vocabulary * float(entries**_VOCABULARY_GROWTH))
    limits = [options.max_features for options in text.vectorizers]
    known = [limit for limit in limits if limit is not None]
    return min(features, sum(known)) if len(known) == len(limits) else features


def vocabulary_factor(features: float, entries: float) -> float:
    """The factor that would have guessed these features."""
    return float(features / entries**_VOCABULARY_GROWTH)


def _label_entries(found: Mapping[str, float], config: Config, guesses: Guesses) -> float:
    labels, pairs = found["labels"], found["pairs"]
    exponent = exponent_for(found["most_positives"] / pairs, int(labels))
    kept = capped_pairs(pairs, int(labels), exponent, config.pifa.max_instances)
    each = found["row_features"] * float(max(1.0, kept / labels) ** guesses.label_growth)
    if config.pifa.max_features is not None:
        each = min(each, config.pifa.max_features)
    return min(labels, pairs) * min(each, found["features"])


def _problems(known: Facts) -> list[str]:
    missing = [name for name in NEEDED if name not in known]
    problems = []
    if missing:
        flags = " ".join(f"--{name} N" for name in missing)
        problems.append(
            f"nothing says how many {', '.join(missing)} there are: give {flags}, or --run with a run that has a "
            "finished corpus, or a configuration whose input.train and input.labels are Parquet files on this machine"
        )
    for name, fact in known.items():
        least = 0 if name in ("test_instances", "log_records") else 1
        if fact.value < least:
            problems.append(f"{name} is {fact.value:g} ({fact.source}): at least {least} is needed")
    if problems:
        return problems
    value = {name: fact.value for name, fact in known.items()}
    for small, large in (("most_positives", "instances"), ("row_features", "features")):
        if small in value and large in value and value[small] > value[large]:
            problems.append(
                f"{small} is {value[small]:,.0f} but {large} is {value[large]:,.0f}: it cannot be more"
            )
    if value["pairs"] > value["instances"] * value["labels"]:
        problems.append(
            f"pairs is {value['pairs']:,.0f}: {value['instances']:,.0f} instances and {value['labels']:,.0f} labels "
            "make fewer"
        )
    return problems
