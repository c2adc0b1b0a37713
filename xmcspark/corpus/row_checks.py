"""What a person is told about the rows and labels of a ready corpus that cannot be used."""

from __future__ import annotations

from typing import Any

from xmcspark.corpus.row_cleaning import COUNTED, RowFacts
from xmcspark.errors import InputError

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


def problems_of_rows(facts: RowFacts, place: str) -> list[str]:
    """`facts` may also have `repeated_ids`."""
    counts = facts.counts
    if not counts["rows"]:
        return [f"{place}: there is not one row; give at least one instance, or leave the setting out"]
    problems = []
    for name, (what, remedy) in _MESSAGES.items():
        if counts.get(name):
            example = facts.examples.get(name)
            such_as = f" (such as id {example!r})" if example is not None else ""
            problems.append(f"{place}: {counts[name]} of {counts['rows']} {what}{such_as}: {remedy}")
    return problems


def notes_of_rows(facts: dict[str, RowFacts]) -> dict[str, int]:
    """What was cut, dropped or replaced, by split, for the stage's notes."""
    notes: dict[str, int] = {}
    for split, seen in facts.items():
        notes |= {f"{split}_{name}": seen.counts[name] for name in COUNTED}
        notes[f"{split}_rows_read"] = seen.counts["rows"]
        notes[f"{split}_rows_with_labels"] = seen.counts["rows_with_labels"]
    return {name: count for name, count in notes.items() if count}


def check_label_table(facts: dict[str, Any], place: str) -> None:
    """InputError if a label table cannot be used. `facts`: listed, nulls, repeated, not_utf8, and an example of each of
    the last two."""
    if not facts["listed"]:
        raise InputError(f"{place}: there is not one label; give the labels that rows refer to")
    if facts["nulls"]:
        raise InputError(
            f"{place}: {facts['nulls']} of {facts['listed']} labels have no id: give each label an id"
        )
    if facts["repeated"]:
        raise InputError(
            f"{place}: {facts['repeated']} label ids occur more than once (such as {facts['repeated_example']!r}): "
            "keep one row for each label"
        )
    _check_label_texts(facts, place)


def _check_label_texts(facts: dict[str, Any], place: str) -> None:
    if facts["not_utf8"]:
        raise InputError(
            f"{place}: {facts['not_utf8']} of {facts['listed']} labels have a text that is not valid UTF-8 (such as "
            f"that of {facts['not_utf8_example']!r}): convert them to UTF-8, or set text.invalid=replace"
        )


def check_label_use(facts: dict[str, Any], enough: int) -> None:
    """InputError if rows have labels that are in no table, or none often enough. `facts`: unknown, example,
    unknown_pairs, active."""
    if facts["unknown"]:
        raise InputError(
            f"{facts['unknown']} labels of input.train or input.test (such as {facts['example']}), in "
            f"{facts['unknown_pairs']} places, are not in input.labels: add them there or take them out of the rows"
        )
    if not facts["active"]:
        raise InputError(
            f"no label has {enough} training instances or more: lower corpus.min_label_count (it is {enough}), or "
            "give more data"
        )
