"""Turns Spark's account of log files that cannot be read into one that names the file and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xmcspark.errors import InputError

# What Spark 3.5 and 4 say, and where they name the file.
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s*Header:\s*(?P<there>.*?)\s*\n\s*Schema:\s*(?P<first>.*?)\s*\n"
    r".*?CSV file: (?P<file>\S+)",
    re.DOTALL,
)
_READING = re.compile(
    r"(?:[Ee]ncountered error while reading file|[Cc]ould not read footer for file:|RuntimeException:)"
    r"\s*\[?(?P<file>[a-z][a-z0-9+.-]*:/[^\s,;\]]+)"
)
_TYPE = re.compile(
    r"column: \[(?P<column>[^\]]+)\], physicalType: (?P<there>\w+), logicalType: (?P<first>\w+)"
)
_GONE = re.compile(r"(?:FileNotFoundException|File does not exist|FILE_NOT_EXIST|PATH_NOT_FOUND)")
_CAUSE = re.compile(r"Caused by: [\w.$]*?(?P<kind>\w+(?:Exception|Error)): (?P<text>[^\n]+)")


@contextmanager
def clear_log_errors() -> Iterator[None]:
    """InputError for a file that is damaged, gone or shaped unlike the others; other errors go through."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of several classes, and not the same in each release of Spark
        problem = _problem(whole_text(error))
        if problem is None:
            raise
        raise InputError(problem) from error


def _problem(text: str) -> str | None:
    if found := _HEADER.search(text):
        return (
            f"{found['file'].rstrip('.')}: its header ({found['there']}) is not that of the other files "
            f"({found['first']}); give all CSV files of the window the same columns in the same order"
        )
    if not (found := _READING.search(text)):
        return None
    file = found["file"].rstrip(".:")
    if other := _TYPE.search(text):
        return (
            f"{file}: its column {other['column']} holds {other['there']}, in the other files it is {other['first']}; "
            "give all Parquet files of the window the same types"
        )
    causes = [f"{cause['text'].strip()}" for cause in _CAUSE.finditer(text)]
    why = f" ({causes[-1][:200]})" if causes else ""
    if _GONE.search(text):
        return f"{file}: it was there when the logs were listed and is gone or unreadable now{why}; run again"
    return (
        f"{file}: cannot be read{why}. It is damaged, cut off or not of the format its name says: write it again or "
        "take it away, then run again"
    )


def whole_text(error: Any) -> str:
    """Message and causes; py4j's own text may be cut."""
    parts = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and hasattr(java, "getCause") and len(parts) < 8:
        parts.append(f"Caused by: {java.toString()}")
        java = java.getCause()
    return "\n".join(parts)
