"""What may go: runs that are neither served, nor kept for a rollback, nor young, nor what a younger one starts from.
How old a run is, its own records say: when it was opened, when its stages finished, when it was published. Folders of
object stores have no time, and files that were copied have another. Only a run whose records have no time (of an early
release) is as old as its newest file."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.published import history

log = logging.getLogger(__name__)


def prune(fs: Filesystem, root: str, keep: int, days: float) -> list[str]:
    """Deletes all runs but the `keep` published last and those younger than `days`; the ids of those deleted."""
    root = fs.qualified(root)
    newest_first = list(reversed(history(fs, root)))
    kept = set(list(dict.fromkeys(publication.run for publication in newest_first))[:keep])
    published_at = {publication.run: publication.published_at for publication in reversed(newest_first)}
    young, old = datetime.now(UTC) - timedelta(days=days), []
    for entry in fs.list(root):
        if not entry.is_folder or entry.name in kept or not fs.exists(joined(entry.uri, "run.json")):
            continue
        if _last_written(fs, entry.uri, published_at.get(entry.name)) <= young:
            old.append(entry.name)
        elif base := _base_of(fs, entry.uri):
            kept.add(base)
    gone = [run for run in old if run not in kept]
    for run in gone:
        # The opening document first: without it the rest is no run, even if a kill leaves it there.
        fs.delete(joined(root, run, "run.json"))
        fs.delete(joined(root, run))
        log.info("run %s deleted", run)
    return gone


def _base_of(fs: Filesystem, uri: str) -> str | None:
    opened = _document(fs, joined(uri, "run.json"))
    if opened is None:
        log.warning("%s/run.json is damaged: the run is kept, its base is not known", uri)
        return None
    base: str | None = opened.get("base")
    return base


def _last_written(fs: Filesystem, uri: str, published_at: str | None) -> datetime:
    """The last sign of life that a run has recorded."""
    stages = [
        entry.uri for entry in fs.list(joined(uri, "stages")) if entry.name.count(".") == 1
    ]  # no parts of stages
    documents = [_document(fs, document) or {} for document in (joined(uri, "run.json"), *stages)]
    said = [document.get(key) for document in documents for key in ("opened_at", "finished_at")]
    times = [time for text in (*said, published_at) if (time := _time(text)) is not None]
    if times:
        return max(times)
    newest = max((file.modified for file in fs.walk(uri)), default=0)
    return datetime.fromtimestamp(newest / 1000, UTC)


def _document(fs: Filesystem, uri: str) -> dict[str, Any] | None:
    try:
        document = json.loads(fs.read_text(uri))
    except ValueError:  # its writer was killed half-way
        return None
    return document if isinstance(document, dict) else None


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
