"""What may go: runs that are neither served, nor kept for a rollback, nor young. Decides it from listings alone, and
never touches a run that a younger one starts from."""

from __future__ import annotations

import json
import logging
import time

from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.published import history

log = logging.getLogger(__name__)

_DAY_MS = 24 * 3600 * 1000


def prune(fs: Filesystem, root: str, keep: int, days: float) -> list[str]:
    """Deletes all runs but the `keep` published last and those younger than `days`; the ids of those deleted."""
    root = fs.qualified(root)
    newest_first = dict.fromkeys(publication.run for publication in reversed(history(fs, root)))
    kept = set(list(newest_first)[:keep])
    old = []
    for entry in fs.list(root):
        if not entry.is_folder or entry.name in kept or not fs.exists(joined(entry.uri, "run.json")):
            continue
        if time.time() * 1000 - _last_written(fs, entry.uri) >= days * _DAY_MS:
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
    try:
        base: str | None = json.loads(fs.read_text(joined(uri, "run.json"))).get("base")
    except ValueError:
        log.warning("%s/run.json is damaged: the run is kept, its base is not known", uri)
        return None
    return base


def _last_written(fs: Filesystem, uri: str) -> int:
    folders = (uri, joined(uri, "stages"), joined(uri, "tables"))
    return max((entry.modified for folder in folders for entry in fs.list(folder)), default=0)
