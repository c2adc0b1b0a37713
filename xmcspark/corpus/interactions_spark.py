"""Which interactions of a source of logs count (log_source_spark.py says which place, `interactions/<source>`, is its
own). Data is written once into a folder of its own, `<place>/data/batch=<id>/`; a numbered pointer per day,
`<place>/dates/<day>/<n>.json`, is created last and says which folder holds that day. What no pointer names does not
exist for readers."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from xmcspark.corpus.driver_listing_spark import listed_by_driver
from xmcspark.errors import ConflictError
from xmcspark.store.filesystem import Entry, Filesystem, joined
from xmcspark.store.pointers import create_next, latest
from xmcspark.store.tables import TABLES

log = logging.getLogger(__name__)

_BEGUN = "%Y%m%dT%H%M%S"


@dataclass(frozen=True)
class Day:
    """One ingested day, as its pointer says it."""

    dt: str
    version: str  # of the listing and settings it was read with: the same version is the same content
    batch: str  # the folder below data that holds it; none if the day has no records
    rows: int
    records: int  # read, usable or not
    quarantined: int


def batch_uri(place: str, batch: str) -> str:
    return joined(place, "data", f"batch={batch}")


def dates_available(fs: Filesystem, place: str) -> list[date]:
    """All days that were ingested, in order."""
    found = []
    for entry in fs.list(joined(place, "dates")):
        try:
            found.append(date.fromisoformat(entry.name))
        except ValueError:
            log.warning("%s is not the name of a day: left out", entry.uri)
    return sorted(found)


def days(fs: Filesystem, place: str, first: date, last: date) -> dict[date, Day]:
    """The ingested days of a window, in order."""
    found = {}
    for day in dates_available(fs, place):
        if first <= day <= last:
            pointer = latest(fs, _pointers(place, day))
            if pointer is not None:
                found[day] = Day(**pointer[1])
    return found


def interaction_versions(fs: Filesystem, place: str, first: date, last: date) -> dict[date, str]:
    """Version of each ingested day of a window: equal versions, equal interactions."""
    return {day: found.version for day, found in days(fs, place, first, last).items()}


def read_interactions(spark: SparkSession, fs: Filesystem, place: str, first: date, last: date) -> DataFrame:
    """The table `interactions` for the ingested days of a window, both ends included."""
    found = days(fs, place, first, last)
    folders = [_part(place, day, "interactions") for day in found.values() if day.rows]
    return _read(spark, place, "interactions", folders)


def read_quarantine(spark: SparkSession, fs: Filesystem, place: str, first: date, last: date) -> DataFrame:
    """The table `quarantine` for the ingested days of a window."""
    found = days(fs, place, first, last)
    folders = [_part(place, day, "quarantine") for day in found.values() if day.quarantined]
    return _read(spark, place, "quarantine", folders)


def make_visible(fs: Filesystem, place: str, day: Day) -> None:
    """From here on readers see this version of a day."""
    folder = _pointers(place, date.fromisoformat(day.dt))
    try:
        create_next(fs, folder, asdict(day))
    except ConflictError:  # two runs that ingest the same logs are welcome to it
        now = latest(fs, folder)
        if now is None or now[1].get("version") != day.version:
            raise


def unused_batches(fs: Filesystem, place: str) -> list[Entry]:
    """Folders of data that no day points to: replaced, of a job that failed, or being written."""
    named: set[str] = {day.batch for day in days(fs, place, date.min, date.max).values()}
    folders = fs.list(joined(place, "data"))
    return [entry for entry in folders if entry.name.removeprefix("batch=") not in named]


def delete_unused_batches(fs: Filesystem, place: str, days_old: float) -> int:
    """Deletes those that are old enough not to be of a job at work; how many that were."""
    last = datetime.now(UTC) - timedelta(days=days_old)
    old = [entry for entry in unused_batches(fs, place) if _begun(fs, entry) <= last]
    for entry in old:
        fs.delete(entry.uri)
    return len(old)


def new_batch() -> str:
    """Unlike any other, so that no two writers ever share a folder and nothing is written twice into one. It says when
    it was begun: folders of object stores have no time, and files being written cannot be seen there."""
    return f"{datetime.now(UTC):{_BEGUN}}-{uuid.uuid4().hex[:12]}"


def _begun(fs: Filesystem, batch: Entry) -> datetime:
    """When a batch was begun, by its name; of one without a time in it, when its newest file was written."""
    try:
        name = batch.name.removeprefix("batch=").partition("-")[0]
        return datetime.strptime(name, _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        newest = max((file.modified for file in fs.walk(batch.uri)), default=batch.modified)
        return datetime.fromtimestamp(newest / 1000, UTC)


def _pointers(place: str, day: date) -> str:
    return joined(place, "dates", day.isoformat())


def _part(place: str, day: Day, kind: str) -> str:
    return joined(batch_uri(place, day.batch), f"kind={kind}", f"dt={day.dt}")


def _read(spark: SparkSession, place: str, table: str, folders: Iterable[str]) -> DataFrame:
    declared = TABLES[table]
    paths: list[Any] = list(folders)
    if not paths:
        return spark.createDataFrame([], declared.schema)
    reader = spark.read.schema(declared.schema).option("basePath", joined(place, "data"))
    with listed_by_driver(spark):
        return reader.parquet(*paths).select(*declared.names)
