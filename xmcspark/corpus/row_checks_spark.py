"""Checks the rows of a ready corpus while they are written for the first time: one pass, no shuffle. Decides what is
refused, with counts and an example, and what is only counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.errors import InputError

_REPLACED = "[\ufffd]"  # what Java makes of bytes that are not UTF-8; a set, so that it is matched as a regex


def as_utf8(text: Column) -> Column:
    """The text with each byte that is not UTF-8 replaced by U+FFFD; Spark itself lets such bytes through."""
    return F.regexp_replace(text, _REPLACED, "\ufffd")


@dataclass(frozen=True)
class WatchedRows:
    """Rows that are counted when they are written."""

    frame: DataFrame  # the rows, and the columns of `counted_flags`
    raw: dict[str, DataFrame]  # by split
    places: dict[str, str]  # split -> how to call its input
    counts: dict[str, Observation]
    config: Config

    def judged(self) -> dict[str, dict[str, int]]:
        """Counts by split, once the rows are written; InputError if they are unusable."""
        found = {split: self._found(split) for split in self.raw}
        if any(_problems(found[split], place) for split, place in self.places.items()):
            self._refuse(found)
        kept = ["rows", *_counted(self.config)]
        return {split: {name: int(row.get(name) or 0) for name in kept} for split, row in found.items()}

    def refuse_repeated_ids(self) -> None:
        """InputError if ids occur more than once, which equal hashes of them made likely."""
        self._refuse({split: self._found(split) for split in self.raw})

    def _found(self, split: str) -> dict[str, Any]:
        """Each count of a split. Most corpora have nothing to count, so what there is is counted in a second look:
        Spark interprets observations, and a score of them would cost more than all else that is done to a row."""
        seen = self.counts[split].get
        if not seen["remarkable"]:
            return {"rows": seen["rows"]}
        row = _flagged(self.raw[split], self.config).agg(*_totals(self.config)).collect()[0]
        return dict(row.asDict())

    def _refuse(self, found: dict[str, dict[str, Any]]) -> None:
        """All that is wrong at once. The ids are compared only now: that takes a shuffle."""
        repeated = _repeated_ids(reduce(DataFrame.unionByName, self.raw.values()))
        counts = {split: {**row, **repeated.get(split, {})} for split, row in found.items()}
        problems = [text for split, place in self.places.items() for text in _problems(counts[split], place)]
        if problems:
            raise InputError("\n".join(problems))


def watched_rows(raw: dict[str, DataFrame], config: Config, places: dict[str, str]) -> WatchedRows:
    """`raw` by split: split, id, text, refs, relevance (or null)."""
    counts = {split: Observation() for split in raw}
    remarkable = F.lit(False)
    for name in {**_refused(config), **_counted(config)}:
        remarkable = remarkable | (F.col(name).cast("bigint") > 0)
    seen = [F.count(F.lit(1)).alias("rows"), F.count_if(remarkable).alias("remarkable")]
    frames = [
        _flagged(rows, config).observe(counts[split], *seen).drop(*_refused(config))
        for split, rows in raw.items()
    ]
    return WatchedRows(reduce(DataFrame.unionByName, frames), raw, places, counts, config)


def _flagged(rows: DataFrame, config: Config) -> DataFrame:
    flags = {**_refused(config), **_counted(config)}
    return rows.select("*", *(flag.alias(name) for name, flag in flags.items()))


def _totals(config: Config) -> list[Column]:
    refused = _refused(config)
    return [
        F.count(F.lit(1)).alias("rows"),
        *(F.sum(F.col(name).cast("bigint")).alias(name) for name in {**refused, **_counted(config)}),
        *(F.min(F.expr(f"if({name}, id, null)")).alias(f"{name}_example") for name in refused),
    ]


def is_odd() -> Column:
    """Whether a watched row has labels that must be left out."""
    return (F.col("pairs_repeated") + F.col("pairs_not_above_0") + F.col("pairs_over_the_limit")) > 0


def _repeated_ids(rows: DataFrame) -> dict[str, dict[str, Any]]:
    """By split."""
    by_id = rows.where("id is not null").groupBy("split", "id").count().where("count > 1")
    found = by_id.groupBy("split").agg(
        F.count(F.lit(1)).alias("repeated_ids"), F.min("id").alias("repeated_ids_example")
    )
    return {row["split"]: row.asDict() for row in found.collect()}


def _refused(config: Config) -> dict[str, Column]:
    bad_number = F.exists(
        "relevance", lambda r: r.isNull() | F.isnan(r) | (F.abs(r.cast("float")) == float("inf"))
    )
    flags = {
        "null_ids": F.col("id").isNull(),
        "null_labels": F.coalesce(F.exists("refs", lambda ref: ref.isNull()), F.lit(False)),
        "uneven": F.coalesce(F.size("refs") != F.size("relevance"), F.lit(False))
        & F.col("relevance").isNotNull(),
        "not_numbers": F.coalesce(bad_number, F.lit(False)),
    }
    if config.text.nulls == "error":
        flags["null_texts"] = F.col("text").isNull()
    if config.text.invalid == "error":
        flags["not_utf8"] = _not_utf8()
    return flags


def _counted(config: Config) -> dict[str, Column]:
    most, longest = config.corpus.max_labels_per_instance, config.corpus.max_text_chars
    pairs = F.greatest(F.size(F.coalesce("refs", F.array())), F.lit(0))
    over = F.greatest(pairs - most, F.lit(0)) if most else F.lit(0)
    flags = {
        "texts_cut": F.coalesce(F.length("text") > longest, F.lit(False)),
        "texts_with_replaced_characters": F.coalesce(F.col("text").contains("\ufffd"), F.lit(False)),
        "rows_without_labels": pairs == 0,
        "pairs_repeated": F.coalesce(pairs - F.size(F.array_distinct("refs")), F.lit(0)),
        "pairs_not_above_0": F.coalesce(
            F.size(F.filter("relevance", lambda r: r.cast("float") <= 0)), F.lit(0)
        ),
        "pairs_over_the_limit": F.when(F.col("split") == "train", over).otherwise(0),
    }
    if config.text.invalid == "replace":
        flags["texts_not_utf8"] = _not_utf8()
    if config.text.nulls == "empty":
        flags["texts_missing"] = F.col("text").isNull()
    return flags


def _not_utf8() -> Column:
    text = F.col("text")
    suspect = F.coalesce(text.rlike(_REPLACED), F.lit(False))
    return F.when(suspect, as_utf8(text).cast("binary") != text.cast("binary")).otherwise(F.lit(False))


_MESSAGES = {
    "null_ids": ("rows have no id", "give each row an id"),
    "repeated_ids": (
        "ids occur more than once",
        "an id must be unique in its split: remove or rename the others",
    ),
    "null_texts": ("rows have no text", "drop them, or set text.nulls=empty to take them as empty"),
    "not_utf8": ("texts are not valid UTF-8", "convert them to UTF-8, or set text.invalid=replace"),
    "null_labels": ("rows have a null among their labels", "leave such labels out"),
    "uneven": ("rows have not as many relevances as labels", "give one for each label"),
    "not_numbers": ("rows have a relevance that is null, NaN or infinite", "relevance is a number above 0"),
}


def _problems(counts: dict[str, Any], place: str) -> list[str]:
    if not counts.get("rows"):
        return [f"{place}: there is not one row; give at least one instance, or leave the setting out"]
    problems = []
    for name, (what, remedy) in _MESSAGES.items():
        if counts.get(name):
            example = counts[f"{name}_example"]
            such_as = f" (such as id {example!r})" if example is not None else ""
            problems.append(f"{place}: {counts[name]} of {counts['rows']} {what}{such_as}: {remedy}")
    return problems
