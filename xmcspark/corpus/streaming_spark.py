"""Logs whose paths have no date, in a folder that grows: new files are streamed, each exactly once, then the days
they belong to are put together anew. Files must be whole when they appear and are never read again.

A batch of the stream is kept as `interactions/<source>/stream/batches/batch=<n>`; a batch that is repeated after a kill
has the same number and files, and overwrites itself. Another folder or other settings are another source and start
anew (log_source_spark.py)."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.corpus.batch_writer_spark import Written, count_batch, write_batch
from xmcspark.corpus.ingest_problems import BadDays, no_counts_problem
from xmcspark.corpus.ingest_settings import COUNTS
from xmcspark.corpus.interactions_spark import Day, batch_uri, days, make_visible, new_batch
from xmcspark.corpus.log_listing_spark import existing, listing_version, log_format
from xmcspark.corpus.log_reader_spark import columns_seen, literal, load_logs, log_schema, raw_records
from xmcspark.corpus.log_source_spark import describe_source, log_source
from xmcspark.corpus.read_errors_spark import clear_log_errors
from xmcspark.corpus.record_checks_spark import checked_records
from xmcspark.errors import InputError, StoreError
from xmcspark.store.filesystem import Entry, joined
from xmcspark.store.stage import Context

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Stream:
    """One stream: its folder, what its files are, and where its batches and its progress are kept."""

    folder: str
    format: str
    files: list[Entry]
    id: str  # the source's name
    place: str  # of its interactions
    batches: str
    checkpoint: str


def stream_listing(context: Context) -> str:
    """Changes when there are new files."""
    stream = _stream(context)
    return listing_version(stream.folder, stream.files, context.config.ingest.content_keys())


def ingest_stream(context: Context) -> int:
    """Reads what is new and makes the days it belongs to visible; the number of these days."""
    stream = _stream(context)
    _check_progress(context, stream)
    describe_source(context.fs, stream.place, log_source(context.fs, context.config))
    refused: list[InputError] = []
    with clear_log_errors():
        try:
            _start(context, stream, refused).awaitTermination()
        except Exception:
            if refused:  # what foreachBatch raised arrives as text in another exception
                raise refused[0] from None
            raise
    return _merge(context, stream)


def _stream(context: Context) -> _Stream:
    settings = context.config.ingest
    assert context.config.input.logs is not None
    folder = existing(context.fs, context.config.input.logs)
    files = [file for file in context.fs.walk(folder) if file.size > 0]
    if not files:
        raise InputError(f"{folder}: there are no log files in it; check input.logs")
    source = log_source(context.fs, context.config)
    place = source.place(context.fs, context.run.root)
    checkpoint = (
        joined(context.fs.qualified(settings.checkpoint), source.name)
        if settings.checkpoint
        else joined(place, "stream", "checkpoint")
    )
    format = log_format(files, settings.format)
    return _Stream(folder, format, files, source.name, place, joined(place, "stream", "batches"), checkpoint)


def _check_progress(context: Context, stream: _Stream) -> None:
    """Batches without progress would be read a second time under other numbers."""
    if context.fs.list(stream.batches) and not context.fs.exists(joined(stream.checkpoint, "offsets")):
        raise StoreError(
            f"{stream.checkpoint}: the stream's progress is gone, but {stream.batches} holds what it has read. Bring "
            "it back (was ingest.checkpoint changed?), or delete the batches to read all files anew"
        )


def _start(context: Context, stream: _Stream, refused: list[InputError]) -> Any:
    spark, settings = context.spark, context.config.ingest
    schema = log_schema(spark, stream.format, stream.files[0].uri, settings)
    reader = (
        spark.readStream.option("recursiveFileLookup", True).option(
            "maxFileAge", "36500d"
        )  # the default forgets files a week older than the newest
    )
    if settings.files_per_batch:
        reader = reader.option("maxFilesPerTrigger", settings.files_per_batch)
    raw = raw_records(
        load_logs(reader, stream.format, schema, settings, literal(stream.folder)),
        stream.format,
        settings.columns,
    )
    checked = checked_records(raw.withColumn("path_day", F.lit(None).cast("date")), settings)
    size = sum(file.size for file in stream.files)

    def keep(frame: DataFrame, number: int) -> None:
        uri = joined(stream.batches, f"batch={number}")
        write_batch(frame, uri, size, size)
        try:
            _check_batch(context, stream, uri)
        except InputError as error:
            refused.append(error)
            raise

    writer = checked.writeStream.foreachBatch(keep).option("checkpointLocation", stream.checkpoint)
    return writer.trigger(availableNow=True).queryName(f"ingest {stream.id}").start()


def _check_batch(context: Context, stream: _Stream, uri: str) -> None:
    """InputError, and the batch is read again next time, if too much of it is unusable."""
    settings, total = context.config.ingest, Written()
    for found in count_batch(context.spark, uri).values():
        total.add(found)
    example = stream.files[0].uri
    if total.bad_ratio > settings.max_bad_ratio:
        refused = BadDays(settings.max_bad_ratio, uri)
        refused.add(None, total)
        columns = columns_seen(context.spark, stream.format, example)
        advice = ". Correct a file in its place (it may become empty): the stream expects it"
        raise InputError(refused.problem(columns) + advice)
    if total.good and not total.counts:
        raise InputError(no_counts_problem(example, columns_seen(context.spark, stream.format, example)))


def _merge(context: Context, stream: _Stream) -> int:
    """Puts together each day that has more batches than its current version has."""
    spark, fs, place = context.spark, context.fs, stream.place
    parts = _parts(context, stream)
    versions = {
        dt: hashlib.sha256(json.dumps([stream.id, sorted(found)]).encode()).hexdigest()[:16]
        for dt, found in parts.items()
    }
    dates = sorted(parts)
    if not dates:
        return 0
    have = {at.dt: at.version for at in days(fs, place, date.min, date.max).values()}
    changed = [dt for dt in dates if have.get(dt) != versions[dt]]
    if not changed:
        return 0
    folders = [uri for dt in changed for uri in parts[dt].values()]
    sizes = {dt: sum(f.size for uri in parts[dt].values() for f in fs.walk(uri)) for dt in changed}
    batch = new_batch()
    target = batch_uri(place, batch)
    write_batch(_as_checked(context, stream, folders), target, max(sizes.values()), sum(sizes.values()))
    written = count_batch(spark, target)
    for dt in changed:
        found = written[dt]
        make_visible(fs, place, Day(dt, versions[dt], batch, found.rows, found.records, found.quarantined))
    return len(changed)


def _parts(context: Context, stream: _Stream) -> dict[str, dict[str, str]]:
    """By day, then by batch and kind: the folders that hold a part of it."""
    fs = context.fs
    found: dict[str, dict[str, str]] = {}
    for batch in fs.list(stream.batches):
        for kind in fs.list(batch.uri):
            for part in fs.list(kind.uri) if kind.is_folder else ():
                dt = part.name.removeprefix("dt=")
                if part.is_folder and dt[:1].isdigit():  # not the folder of records without a day
                    found.setdefault(dt, {})[f"{batch.name}/{kind.name}"] = part.uri
    return found


def _as_checked(context: Context, stream: _Stream, folders: list[str]) -> DataFrame:
    columns = {"reason": "string", "query": "string", "label_key": "string", "label_text": "string"}
    columns |= dict.fromkeys(COUNTS, "bigint") | {
        "file": "string",
        "record": "string",
        "records": "bigint",
        "dt": "date",
    }
    schema = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    frame = context.spark.read.schema(schema).option("basePath", stream.batches).parquet(*folders)
    return frame.select(*columns)
