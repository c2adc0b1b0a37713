"""What tells one source of logs from another, and where its interactions lie. Two configurations share what was
ingested only if they name the same folder and read it alike; any others have places of their own, so that no day of
one ever takes the place of the other's."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from xmcspark.config.configuration import Config
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.runs import Run

_ABOUT = "source.json"
_NAME_CHARS = 40


@dataclass(frozen=True)
class LogSource:
    """A folder of logs as a configuration reads it."""

    name: str  # for people, then a hash of the rest: search-logs-3f2a9c4e1b70
    folder: str  # absolute URI
    settings: dict[str, object]  # how its files are read

    def place(self, fs: Filesystem, root: str) -> str:
        """URI of the folder that holds its interactions, shared by all runs of a root."""
        return joined(fs.qualified(root), "interactions", self.name)


def log_source(fs: Filesystem, config: Config) -> LogSource:
    assert config.input.logs is not None
    folder, settings = fs.qualified(config.input.logs), config.ingest.content_keys()
    digest = hashlib.sha256(json.dumps([folder, settings], sort_keys=True).encode()).hexdigest()[:12]
    readable = re.sub(r"[^a-z0-9]+", "-", folder.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return LogSource(f"{readable[:_NAME_CHARS].strip('-') or 'logs'}-{digest}", folder, settings)


def describe_source(fs: Filesystem, place: str, source: LogSource) -> None:
    """`source.json` says in the place itself which logs it is of."""
    uri = joined(place, _ABOUT)
    if not fs.exists(uri):
        about = {"folder": source.folder, "settings": source.settings}
        fs.create(uri, json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def unused_sources(fs: Filesystem, root: str) -> list[str]:
    """Places of sources that no run there is has read. They are not deleted: the logs themselves may be gone."""
    root = fs.qualified(root)
    runs = [Run(fs, root, entry.name) for entry in fs.list(root) if fs.exists(joined(entry.uri, "run.json"))]
    used = {record.notes.get("source") for run in runs if (record := run.find_record("ingest")) is not None}
    return [place for place in source_places(fs, root) if place.rpartition("/")[2] not in used]


def source_places(fs: Filesystem, root: str) -> list[str]:
    """Places of all sources that were ever ingested into a root."""
    entries = fs.list(joined(fs.qualified(root), "interactions"))
    return [entry.uri for entry in entries if fs.exists(joined(entry.uri, _ABOUT))]
