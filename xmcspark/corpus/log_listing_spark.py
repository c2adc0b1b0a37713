"""Which files the raw logs of a day are, from listings alone. Decides what makes a day's logs new: a file's path,
size or time."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from xmcspark.corpus.path_dates import date_finder
from xmcspark.errors import InputError
from xmcspark.store.filesystem import Entry, Filesystem

log = logging.getLogger(__name__)

_EXTENSIONS = {"json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "parquet": "parquet"}
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|snappy|lz4|deflate)$")
_ESCAPED = re.compile(r"[^\w/:@&=+$,;.!~*'()\x80-\U0010ffff-]", re.ASCII)


@dataclass
class LogFiles:
    """The dates there are, each with its files and folders as first met; folders are opened when asked for."""

    fs: Filesystem
    folder: str
    found: dict[date, list[Entry]] = field(default_factory=dict)

    def dates(self) -> list[date]:
        return sorted(self.found)

    def of(self, day: date) -> list[Entry]:
        """All files of a day. Empty ones only if there are no others: they hold nothing and not every reader likes
        them."""
        files = [file for entry in self.found.get(day, []) for file in self.fs.walk(entry.uri)]
        return [file for file in files if file.size > 0] or files


def list_logs(fs: Filesystem, logs: str, layout: str) -> LogFiles:
    """The dated logs below a folder. InputError if it is not there or holds logs without a date."""
    folder = existing(fs, logs)
    found: dict[date, list[Entry]] = {}
    stray = []
    for entry, day in _dated(fs, folder, "", date_finder(layout)):
        if day is not None:
            found.setdefault(day, []).append(entry)
        elif _format_of_name(entry.name):
            stray.append(entry)
        else:
            log.warning("%s has no date in its path and is no log file: left out", entry.uri)
    if stray:
        raise InputError(
            f"{folder}: {len(stray):,} log files have no date in their path, such as {stray[0].uri}. Say where the "
            "date is (ingest.layout: dt=YYYY-MM-DD), or set ingest.layout to undated and ingest.columns.dt to the "
            "column that holds it"
        )
    return LogFiles(fs, folder, found)


def existing(fs: Filesystem, logs: str) -> str:
    """The folder's URI; InputError if there is no such folder."""
    folder = fs.qualified(logs)
    if not fs.exists(folder):
        raise InputError(f"{folder}: there is no such folder; set input.logs to the folder of the raw logs")
    return folder


def _dated(
    fs: Filesystem, uri: str, path: str, find: Callable[[str], date | None]
) -> Iterator[tuple[Entry, date | None]]:
    """What has a date, not looked into; and files on the way that have none."""
    for entry in fs.list(uri):
        if entry.name.startswith(("_", ".")):
            continue
        below = f"{path}/{entry.name}".lstrip("/")
        day = find(below)
        if day is None and entry.is_folder:
            yield from _dated(fs, entry.uri, below, find)
        else:
            yield entry, day


def listing_version(folder: str, files: Iterable[Entry], settings: dict[str, Any]) -> str:
    """Changes whenever what is read from these files might."""
    listing = [[file.uri.removeprefix(folder), file.size, file.modified] for file in files]
    text = json.dumps([folder, sorted(listing), settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def log_format(files: Iterable[Entry], wanted: str) -> str:
    """The one format of the files: json, csv or parquet."""
    if wanted != "auto":
        return wanted
    examples: dict[str, str] = {}
    for file in files:
        found = _format_of_name(file.name)
        if found is None:
            raise InputError(
                f"{file.uri}: the name does not tell the format; set ingest.format to json, csv or parquet"
            )
        examples.setdefault(found, file.uri)
    if len(examples) > 1:
        raise InputError(
            f"the logs have several formats, such as {' and '.join(examples.values())}: keep one format in a folder, "
            "or set ingest.format if the names are misleading"
        )
    return next(iter(examples), "json")


def _format_of_name(name: str) -> str | None:
    return _EXTENSIONS.get(_COMPRESSED.sub("", name.lower()).rpartition(".")[2])


def lookup_forms(days: Iterable[tuple[str, date]]) -> dict[str, date]:
    """Day by file, under each form in which releases of Spark name a file: as a path, and as an encoded URI."""
    pairs = list(days)
    found = {_encoded(uri): day for uri, day in pairs}
    for uri, day in pairs:
        found.setdefault(uri, day)
    return {form: day for named, day in found.items() for form in _with_slashes(named)}


def _encoded(uri: str) -> str:
    """As java.net.URI writes a path: ASCII that is not allowed there is escaped, the rest stays."""
    scheme, colon, path = uri.partition(":")
    return scheme + colon + _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", path)


def _with_slashes(uri: str) -> tuple[str, ...]:
    """A local file is file:/x to some and file:///x to others."""
    if uri.startswith("file:/") and not uri.startswith("file://"):
        return uri, "file://" + uri.removeprefix("file:")
    return (uri,)
