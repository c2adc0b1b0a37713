"""Lines of the Extreme Classification Repository's files: raw texts, sparse label rows ("12:1 40:0.5"), JSON records
(uid, title, content, target_ind, target_rel) and filter pairs. Decides what a line must look like; a line that does
not carries the reason instead of values, so that all of a file's bad lines can be counted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SCHEMA = "line bigint, id string, text string, refs array<bigint>, relevance array<double>, problem string"
_ARROW = pa.schema(
    [
        ("line", pa.int64()),
        ("id", pa.string()),
        ("text", pa.string()),
        ("refs", pa.list_(pa.int64())),
        ("relevance", pa.list_(pa.float64())),
        ("problem", pa.string()),
    ]
)
HEADER = -1  # line of a header: its numbers are in refs
_NUMBERS = re.compile(r"\s*\d+([ \t]+\d+){1,2}\s*")
_FEATURES = re.compile(r"\s*(\d+(,\d+)*\s)?\s*\d+:[-+.\deE]+(\s+\d+:[-+.\deE]+)*\s*")


@dataclass(frozen=True)
class Parsed:
    """One line; what its format does not have is None."""

    id: str | None = None
    text: str | None = None
    refs: list[int] | None = None
    relevance: list[float] | None = None


Parser = Callable[[str], Parsed]


def raw_text(line: str) -> Parsed:
    return Parsed(text=line)


def sparse_labels(line: str) -> Parsed:
    """`12:1 40:0.5`, or label numbers with commas between them, whose relevance is 1."""
    refs, relevance = [], []
    items = line.split() if ":" in line else [item for item in line.strip().split(",") if item.strip()]
    for item in items:
        number, _, value = item.partition(":")
        refs.append(_label(number))
        relevance.append(float(value) if value else 1.0)
    return Parsed(refs=refs, relevance=relevance)


def json_record(line: str) -> Parsed:
    """An instance or a label: its text is title and content."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    parts = [record[name] for name in ("title", "content", "text") if record.get(name) is not None]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("title or content is not a string")
    uid = record.get("uid")
    if uid is None or isinstance(uid, (dict, list, float, bool)):
        raise ValueError("uid is missing, or neither a string nor an integer")
    refs = record.get("target_ind", [])
    if not isinstance(refs, list) or not all(type(ref) is int for ref in refs):
        raise ValueError("target_ind is not a list of integers")
    relevance = record.get("target_rel", [1.0] * len(refs))
    if not isinstance(relevance, list) or not all(type(value) in (int, float) for value in relevance):
        raise ValueError("target_rel is not a list of numbers")
    text = " ".join(part for part in parts if part) if parts else None
    return Parsed(str(uid), text, [_label(str(ref)) for ref in refs], [float(value) for value in relevance])


def filter_pair(line: str) -> Parsed:
    """`7 19`: label 19 is not to be predicted for row 7."""
    row, label = line.split()
    return Parsed(refs=[_label(row), _label(label)])


def parsed_batches(
    batches: Iterable[pa.RecordBatch], parse: Parser, invalid: str, header: bool
) -> Iterator[pa.RecordBatch]:
    """The lines (binary) of one file, in its order, as rows of SCHEMA. `invalid`: "replace" reads bytes that are not
    UTF-8 as U+FFFD. `header`: a first line of plain numbers is a header, not a row."""
    number = skipped = 0
    for batch in batches:
        rows = []
        for content in batch.column(0).to_pylist():
            content = content or b""
            if number == 0:
                content = content.removeprefix(b"\xef\xbb\xbf")
                if header and _NUMBERS.fullmatch(content.decode("utf-8", "replace")):
                    rows.append(_row(HEADER, Parsed(refs=[int(part) for part in content.split()]), None))
                    header, skipped = False, 1
                    continue
            place = f"line {number + skipped + 1}"
            rows.append(_parsed_row(number, content.removesuffix(b"\r"), parse, invalid, place))
            number += 1
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def is_bag_of_words(lines: list[str]) -> bool:
    """Whether a file that begins with these lines holds features instead of texts."""
    if lines and _NUMBERS.fullmatch(lines[0]):
        lines = lines[1:]
    return bool(lines) and all(_FEATURES.fullmatch(line) for line in lines)


def label_file_names(name: str) -> list[str]:
    """Where the labels of a file of raw texts may be: those of trn_X.txt in trn_X_Y.txt or trn_Y.txt."""
    stem, dot, ending = name.partition(".txt")
    names = [f"{stem}_Y{dot}{ending}"]
    if "X" in stem:
        before, _, after = stem.rpartition("X")
        names.append(f"{before}Y{after}{dot}{ending}")
    names.append(f"{stem}_labels{dot}{ending}")
    return names


def _label(number: str) -> int:
    if not number.isdecimal() or len(number) > 10:
        raise ValueError(f"{number[:20]!r} is not a label number")
    return int(number)


def _parsed_row(number: int, content: bytes, parse: Parser, invalid: str, place: str) -> dict[str, Any]:
    try:
        line = content.decode("utf-8", "strict" if invalid == "error" else "replace")
        parsed = parse(line)
        if parsed.relevance is not None and not all(map(math.isfinite, parsed.relevance)):
            raise ValueError("a relevance is not finite")
    except UnicodeDecodeError as error:
        reason = (
            f"{place}: not valid UTF-8 at byte {error.start}; convert the file, or set text.invalid=replace"
        )
        return _row(number, Parsed(), reason)
    except RecursionError:
        return _row(number, Parsed(), f"{place}: nested too deeply")
    except ValueError as error:  # JSON's errors are of this kind too
        return _row(number, Parsed(), f"{place}: {error}"[:200])
    return _row(number, parsed, None)


def _row(number: int, parsed: Parsed, problem: str | None) -> dict[str, Any]:
    return {
        "line": number,
        "id": parsed.id,
        "text": parsed.text,
        "refs": parsed.refs,
        "relevance": parsed.relevance,
        "problem": problem,
    }
