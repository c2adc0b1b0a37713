"""The stage `ingest`: raw logs into the interactions that all runs of a root with the same logs share. Decides which
days are read: those of the window whose listing changed. A day becomes visible when it is whole and clean enough, not
before; a day that had records does not become empty unasked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.corpus.batch_writer_spark import Written, count_batch, write_batch
from xmcspark.corpus.driver_listing_spark import listed_by_driver
from xmcspark.corpus.ingest_problems import (
    BadDays,
    emptied_days_problem,
    empty_days_problem,
    no_counts_problem,
)
from xmcspark.corpus.ingest_settings import IngestSettings
from xmcspark.corpus.interactions_spark import (
    Day,
    batch_uri,
    dates_available,
    days,
    make_visible,
    new_batch,
)
from xmcspark.corpus.log_listing_spark import LogFiles, list_logs, listing_version, log_format, lookup_forms
from xmcspark.corpus.log_reader_spark import columns_seen, literal, load_logs, log_schema, raw_records
from xmcspark.corpus.log_source_spark import describe_source, log_source
from xmcspark.corpus.read_errors_spark import clear_log_errors
from xmcspark.corpus.record_checks_spark import checked_records
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.corpus.streaming_spark import ingest_stream, stream_listing
from xmcspark.errors import InputError
from xmcspark.store.filesystem import Entry
from xmcspark.store.progress import tell
from xmcspark.store.small_frames import small_frame
from xmcspark.store.stage import Context, Stage

log = logging.getLogger(__name__)

_GROUP_BYTES = 32 << 30  # days are read together up to this: a kill loses no more


@dataclass(frozen=True)
class LogDay:
    """The raw logs of one day."""

    day: date
    files: tuple[Entry, ...]
    version: str

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def _run(context: Context) -> None:
    config, fs = context.config, context.fs
    if config.input.logs is None:
        log.info("ingest: input.logs is null, the corpus is ready: nothing to do")
        context.note(days={}, read=0)
        return
    ensure_sample_logs(context.spark, config)
    source = log_source(fs, config)
    place = source.place(fs, context.run.root)
    if config.ingest.layout == "undated":
        read = ingest_stream(context)
        known = dates_available(fs, place)
        last = _last_day(context, known)
    else:
        logs, last = _listed(context, place)
        known = [*logs.dates(), *dates_available(fs, place)]
        before = days(fs, place, _first_day(context, last), last)
        wanted = _log_days(context, logs, last)
        coming = [day.day for day in wanted if day.bytes]
        _refuse_gaps(context, _gaps(context, last, [*_filled(before), *coming], known))
        describe_source(fs, place, source)
        read = _ingest_days(context, place, wanted, before)
    found = days(fs, place, _first_day(context, last), last)
    gaps = _gaps(context, last, _filled(found), known)
    _refuse_gaps(context, gaps)
    for day in gaps:
        log.warning("ingest: %s has no records, going on without it (ingest.empty_day is skip)", day)
    _note(context, source.name, found, read)


def _listed(context: Context, place: str) -> tuple[LogFiles, date]:
    """The logs, and the last day of the window."""
    assert context.config.input.logs is not None
    logs = list_logs(context.fs, context.config.input.logs, context.config.ingest.layout)
    if not logs.dates():
        raise InputError(f"{logs.folder}: there are no log files in it; check input.logs and ingest.layout")
    return logs, _last_day(context, [*logs.dates(), *dates_available(context.fs, place)])


def _last_day(context: Context, known: Sequence[date]) -> date:
    if context.config.run.date is not None:
        return date.fromisoformat(context.config.run.date)
    if not known:
        raise InputError(f"{context.config.input.logs}: not one record with a day in it; check input.logs")
    return max(known)


def _first_day(context: Context, last: date) -> date:
    return last - timedelta(days=context.config.corpus.window_days - 1)


def _log_days(context: Context, logs: LogFiles, last: date) -> list[LogDay]:
    """The days of the window that have files, though maybe empty ones."""
    settings = context.config.ingest.content_keys()
    first = _first_day(context, last)
    files = {day: tuple(logs.of(day)) for day in logs.dates() if first <= day <= last}
    return [
        LogDay(day, found, listing_version(logs.folder, found, settings))
        for day, found in files.items()
        if found
    ]


def _filled(found: dict[date, Day]) -> list[date]:
    return [day for day, at in found.items() if at.records]


def _gaps(context: Context, last: date, filled: Iterable[date], known: Sequence[date]) -> list[date]:
    """Days of the window without records: one whose logs are gone since it was ingested is none of them, nor are days
    before the first one known, where the logs begin later than the window."""
    there, first = set(filled), max(_first_day(context, last), min(known, default=last))
    window = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [day for day in window if day not in there]


def _refuse_gaps(context: Context, gaps: Sequence[date]) -> None:
    if gaps and context.config.ingest.empty_day == "error":
        raise InputError(empty_days_problem(gaps, str(context.config.input.logs)))


def _ingest_days(context: Context, place: str, wanted: Sequence[LogDay], have: dict[date, Day]) -> int:
    """Reads what is new; the number of days read."""
    new = [day for day in wanted if day.day not in have or have[day.day].version != day.version]
    log.info("ingest: %s days in the window, %s new or changed", len(wanted), len(new))
    full = [day for day in new if day.bytes]
    format = log_format((file for day in full for file in day.files), context.config.ingest.format)
    empty = [day for day in new if not day.bytes]
    done = 0
    for group in _groups(full):
        tell("ingest", f"{done} of {len(full)} days")
        empty += _ingest_group(context, place, group, format)
        done += len(group)
    _settle_empty(context, place, empty, have)
    return len(new)


def _settle_empty(context: Context, place: str, empty: Sequence[LogDay], have: dict[date, Day]) -> None:
    """Days whose files hold no records. One that had some before does not lose them unasked; one that never had any is
    a gap like a day without files."""
    lost = {day.day: have[day.day].records for day in empty if day.day in have and have[day.day].records}
    if context.config.ingest.empty_day == "error":
        if lost:
            raise InputError(
                emptied_days_problem(lost, [f.uri for d in empty if d.day in lost for f in d.files])
            )
        return
    for day in sorted(empty, key=lambda day: day.day):
        make_visible(context.fs, place, Day(day.day.isoformat(), day.version, "", 0, 0, 0))


def _groups(wanted: Sequence[LogDay]) -> list[list[LogDay]]:
    groups: list[list[LogDay]] = []
    size = 0
    for day in wanted:
        if not groups or size + day.bytes > _GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(day)
        size += day.bytes
    return groups


def _ingest_group(context: Context, place: str, group: Sequence[LogDay], format: str) -> list[LogDay]:
    """Reads days together, then makes each visible that is clean enough; the days that turned out to be empty."""
    spark, fs, settings = context.spark, context.fs, context.config.ingest
    batch = new_batch()
    uri = batch_uri(place, batch)
    with clear_log_errors():
        raw = _read(spark, group, format, settings)
        all_bytes = sum(day.bytes for day in group)
        write_batch(checked_records(raw, settings), uri, max(day.bytes for day in group), all_bytes)
        written = count_batch(spark, uri)
    if "" in written:
        raise AssertionError(f"records of files that were not listed: {written[''].example}")
    example = group[0].files[0].uri
    refused = BadDays(settings.max_bad_ratio, uri)
    for day in group:
        found = written.get(day.day.isoformat(), Written())
        if found.bad_ratio > settings.max_bad_ratio:
            refused.add(day.day, found)
    good = [day for day in group if day.day.isoformat() in written and day.day not in refused.days]
    if good and not any(written[day.day.isoformat()].counts for day in good):
        raise InputError(no_counts_problem(example, columns_seen(spark, format, example)))
    for day in good:
        make_visible(fs, place, _day(day.day.isoformat(), day.version, batch, written[day.day.isoformat()]))
    if refused.days:
        raise InputError(refused.problem(columns_seen(spark, format, _file_of(group, refused.example))))
    return [day for day in group if day.day.isoformat() not in written]


def _file_of(group: Sequence[LogDay], named: str) -> str:
    """The listed file that Spark names in a form of its own."""
    return next(f.uri for day in group for f in day.files if named in lookup_forms([(f.uri, day.day)]))


def _read(spark: SparkSession, group: Sequence[LogDay], format: str, settings: IngestSettings) -> DataFrame:
    """The raw records of several days, each with the day of its file."""
    paths = [file.uri for day in group for file in day.files]
    schema = log_schema(spark, format, paths[0], settings)
    with listed_by_driver(spark):
        logs = load_logs(spark.read, format, schema, settings, [literal(path) for path in paths])
    raw = raw_records(logs, format, settings.columns)
    of_file = lookup_forms((file.uri, day.day) for day in group for file in day.files)
    rows = [(file, day.isoformat()) for file, day in of_file.items()]
    path_days = small_frame(spark, rows, "file string, path_day date")
    return raw.join(F.broadcast(path_days), "file", "left")


def _day(dt: str, version: str, batch: str, written: Written) -> Day:
    return Day(dt, version, batch, written.rows, written.records, written.quarantined)


def _note(context: Context, source: str, found: dict[date, Day], read: int) -> None:
    context.rows["interactions"] = sum(day.rows for day in found.values())
    context.rows["quarantine"] = sum(day.quarantined for day in found.values())
    facts = {
        day.isoformat(): {
            "version": at.version,
            "rows": at.rows,
            "records": at.records,
            "quarantined": at.quarantined,
        }
        for day, at in found.items()
    }
    context.note(source=source, days=facts, read=read)


def _external(context: Context) -> Any:
    """Listing of the raw logs of the window."""
    if context.config.input.logs is None:
        return None
    ensure_sample_logs(context.spark, context.config)
    if context.config.ingest.layout == "undated":
        return stream_listing(context)
    place = log_source(context.fs, context.config).place(context.fs, context.run.root)
    logs, last = _listed(context, place)
    return {day.day.isoformat(): day.version for day in _log_days(context, logs, last)}


STAGE = Stage(
    "ingest",
    1,
    ("input.logs", "ingest", "run.date", "corpus.window_days"),
    (),
    (),
    _run,
    external=_external,
)
