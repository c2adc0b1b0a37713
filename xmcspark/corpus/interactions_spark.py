"""Where the interactions that all runs of a root share lie, and which of them count. Data is written once into a
folder of its own, `interactions/data/batch=<id>/`; a numbered pointer per day, `interactions/dates/<day>/<n>.json`,
is created last and says which folder holds that day. What no pointer names does not exist for readers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from xmcspark.corpus.driver_listing_spark import listed_by_driver
from xmcspark.errors import ConflictError
from xmcspark.store.filesystem import Entry, Filesystem, joined
from xmcspark.store.pointers import create_next, latest
from xmcspark.store.tables import TABLES

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Day:
    """One ingested day, as its pointer says it."""

    dt: str
    version: str  # of the listing and settings it was read with: the same version is the same content
    batch: str  # the folder below interactions/data that holds it
    rows: int
    records: int  # read, usable or not
    quarantined: int


def interactions_uri(fs: Filesystem, root: str, *names: str) -> str:
    return joined(fs.qualified(root), "interactions", *names)


def batch_uri(fs: Filesystem, root: str, batch: str) -> str:
    return interactions_uri(fs, root, "data", f"batch={batch}")


def dates_available(fs: Filesystem, root: str) -> list[date]:
    """All days that were ingested, in order."""
    found = []
    for entry in fs.list(interactions_uri(fs, root, "dates")):
        try:
            found.append(date.fromisoformat(entry.name))
        except ValueError:
            log.warning("%s is not the name of a day: left out", entry.uri)
    return sorted(found)


def days(fs: Filesystem, root: str, first: date, last: date) -> dict[date, Day]:
    """The ingested days of a window, in order."""
    found = {}
    for day in dates_available(fs, root):
        if first <= day <= last:
            pointer = latest(fs, _pointers(fs, root, day))
            if pointer is not None:
                found[day] = Day(**pointer[1])
    return found


def interaction_versions(fs: Filesystem, root: str, first: date, last: date) -> dict[date, str]:
    """Version of each ingested day of a window: equal versions, equal interactions."""
    return {day: found.version for day, found in days(fs, root, first, last).items()}


def read_interactions(spark: SparkSession, fs: Filesystem, root: str, first: date, last: date) -> DataFrame:
    """The table `interactions` for the ingested days of a window, both ends included."""
    found = days(fs, root, first, last)
    folders = [_part(fs, root, day, "interactions") for day in found.values() if day.rows]
    return _read(spark, fs, root, "interactions", folders)


def read_quarantine(spark: SparkSession, fs: Filesystem, root: str, first: date, last: date) -> DataFrame:
    """The table `quarantine` for the ingested days of a window."""
    found = days(fs, root, first, last)
    folders = [_part(fs, root, day, "quarantine") for day in found.values() if day.quarantined]
    return _read(spark, fs, root, "quarantine", folders)


def make_visible(fs: Filesystem, root: str, day: Day) -> None:
    """From here on readers see this version of a day."""
    folder = _pointers(fs, root, date.fromisoformat(day.dt))
    try:
        create_next(fs, folder, asdict(day))
    except ConflictError:  # two runs that ingest the same logs are welcome to it
        now = latest(fs, folder)
        if now is None or now[1].get("version") != day.version:
            raise


def unused_batches(fs: Filesystem, root: str) -> list[Entry]:
    """Folders of data that no day points to: replaced, of a job that failed, or being written."""
    named: set[str] = {day.batch for day in days(fs, root, date.min, date.max).values()}
    folders = fs.list(interactions_uri(fs, root, "data"))
    return [entry for entry in folders if entry.name.removeprefix("batch=") not in named]


def delete_unused_batches(fs: Filesystem, root: str, days_old: float) -> int:
    """Deletes those that are old enough not to be of a job at work; how many that were."""
    last = time.time() * 1000 - days_old * 24 * 3600 * 1000
    old = [entry for entry in unused_batches(fs, root) if entry.modified <= last]
    for entry in old:
        fs.delete(entry.uri)
    return len(old)


def _pointers(fs: Filesystem, root: str, day: date) -> str:
    return interactions_uri(fs, root, "dates", day.isoformat())


def _part(fs: Filesystem, root: str, day: Day, kind: str) -> str:
    return joined(batch_uri(fs, root, day.batch), f"kind={kind}", f"dt={day.dt}")


def _read(spark: SparkSession, fs: Filesystem, root: str, table: str, folders: Iterable[str]) -> DataFrame:
    declared = TABLES[table]
    paths: list[Any] = list(folders)
    if not paths:
        return spark.createDataFrame([], declared.schema)
    reader = spark.read.schema(declared.schema).option("basePath", interactions_uri(fs, root, "data"))
    with listed_by_driver(spark):
        return reader.parquet(*paths).select(*declared.names)
