"""Numbered pointer files: what is current is what the file with the highest number says. A pointer is only ever
created, never changed, so readers see the old state or the new one, and of two writers one is told that it lost."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xmcspark.errors import ConflictError
from xmcspark.store.filesystem import Filesystem, joined

log = logging.getLogger(__name__)

_NAME = re.compile(r"([1-9]\d*)\.json")


def create_next(fs: Filesystem, folder: str, payload: Mapping[str, Any], after: int | None = None) -> int:
    """Makes `payload` the current state and returns its number. `after` is the number it takes over from, by
    default the highest there is; ConflictError if somebody else took over from it."""
    number = (max(numbers(fs, folder), default=0) if after is None else after) + 1
    uri = joined(folder, f"{number}.json")
    text = json.dumps(payload, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if not fs.create(uri, text):
        raise ConflictError(
            f"{uri} was created by somebody else meanwhile: their state counts, ours was not written. Check that no "
            "two jobs work on the same folder, then run again"
        )
    return number


def latest(fs: Filesystem, folder: str) -> tuple[int, dict[str, Any]] | None:
    """Number and payload of the current state; None before the first. A file that its writer did not finish does
    not count."""
    return next(newest_first(fs, folder), None)


def newest_first(fs: Filesystem, folder: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbers and payloads of all states that count, the current one first."""
    for number in reversed(numbers(fs, folder)):
        uri = joined(folder, f"{number}.json")
        payload = _payload(fs.read_text(uri))
        if payload is not None:
            yield number, payload
        else:
            log.warning("%s is not readable: its writer did not finish, it does not count", uri)


def numbers(fs: Filesystem, folder: str) -> list[int]:
    """Of all pointer files, readable or not, increasing."""
    names = (_NAME.fullmatch(entry.name) for entry in fs.list(folder))
    return sorted(int(name[1]) for name in names if name)


def _payload(text: str) -> dict[str, Any] | None:
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None
