"""The publish stage: checks the gates, seals the bundle, and makes the run the one that is served. Rolling back is
publishing an older run once more."""

from __future__ import annotations

import datetime
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import functions as F

from xmcspark.errors import RefusedError, StoreError
from xmcspark.serving.bundle import MANIFEST, manifest_of, read_manifest, write_manifest
from xmcspark.serving.label_names import LabelNames
from xmcspark.store.database import register_tables
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.gates import gate_problems
from xmcspark.store.published import Published, history, last_number, publish, published
from xmcspark.store.runs import Run
from xmcspark.store.side_files import local_copy
from xmcspark.store.stage import Context, Stage

log = logging.getLogger(__name__)


def run_publish(context: Context) -> None:
    run, settings = context.run, context.config.publish
    if not settings.enabled:
        log.info("publish.enabled is false: the run is not published")
        context.note(published=None)
        return
    if run.id in (publication.run for publication in history(run.fs, run.root)):
        log.info("run %s was published before", run.id)  # by an attempt that ended before it was recorded
        _register(context)
        return
    # The number is read before anything is judged: who publishes meanwhile makes this one fail, not vanish.
    last, past = last_number(run.fs, run.root), history(run.fs, run.root)
    facts = _facts(context)
    if problems := gate_problems(settings.require, facts, past[-1].facts if past else None):
        served = f"run {past[-1].run} is served on" if past else "nothing is served"
        raise RefusedError(
            f"run {run.id} is not published, {served}:\n"
            + "\n".join(f"- {problem}" for problem in problems)
            + "\nlook at its metrics; to publish it all the same, set the gate to null (or false) and run "
            + f"publish --run {run.id}"
        )
    facts["bundle"] = _seal(context, _asked(context))
    write_run_manifest(run)
    number = publish(run.fs, run.root, Published(run.id, _now(), "refresh", facts), after=last)
    log.info("publication %d: run %s is served now", number, run.id)
    context.note(published=number, **facts)
    _register(context)


def _register(context: Context) -> None:
    """Last, and again if an attempt failed here: what is served does not depend on it."""
    database, served = context.config.publish.database, published(context.fs, context.run.root)
    if database is not None and served is not None and served.run == context.run.id:
        context.note(database=database, tables=register_tables(context.spark, context.run, database))


def roll_back(fs: Filesystem, run: Run) -> Published:
    """Makes a run that was published before the current one again, as it was."""
    last, past = last_number(fs, run.root), history(fs, run.root)
    earlier = [publication for publication in past if publication.run == run.id]
    if not earlier:
        raise StoreError(f"run {run.id} was never published: run the publish stage on it")
    _check_sizes(fs, run.folder("bundle"))
    publication = Published(run.id, _now(), "rollback", earlier[-1].facts)
    number = publish(fs, run.root, publication, after=last)
    log.info("publication %d: run %s is served again", number, run.id)
    return publication


def _check_sizes(fs: Filesystem, bundle: str) -> None:
    """What is no longer whole cannot be served. Nothing is copied: a rollback is in a hurry."""
    if local := fs.local_path(bundle):
        read_manifest(Path(local))
        return
    listed = manifest_of(fs.read_text(joined(bundle, MANIFEST)), joined(bundle, MANIFEST))["files"]
    sizes = {entry.uri: entry.size for entry in fs.walk(bundle)}
    bad = [name for name, entry in listed.items() if sizes.get(joined(bundle, name)) != entry["size"]]
    if bad:
        raise StoreError(
            f"{bundle} is no longer whole: {', '.join(sorted(bad)[:5])} of {len(bad)} files are missing or of another "
            "size; restore them or publish another run"
        )


def write_run_manifest(run: Run) -> None:
    """`manifest.json`: everything the run consists of, from the records of its stages."""
    stages = {record.stage: json.loads(record.to_json()) for record in run.records()}
    run.fs.write_text(
        joined(run.uri, "manifest.json"), json.dumps({"run": run.id, "stages": stages}, indent=1)
    )


def _facts(context: Context) -> dict[str, Any]:
    """What the gates compare: P@1 on the test split and the number of labels that the model knows."""
    metrics = context.read("metrics").where("metric = 'P' and k = 1 and bin = 'all' and split = 'test'")
    precision = [row.value for row in metrics.collect()]
    labels = context.read("labels").where(F.col("active")).count()
    return {
        "precision": precision[0] if precision else None,
        "labels": labels,
        "date": context.noted("corpus").get("last_day", context.config.run.date),
    }


def _asked(context: Context) -> dict[str, Any]:
    """How predict asked the model: beam, scoring, members."""
    asked: dict[str, Any] | None = context.noted("predict").get("asked")
    if asked is None:
        raise StoreError(
            f"run {context.run.id} was predicted by an earlier release of xmcspark, which did not note how the model "
            "is asked: run predict, evaluate, then publish; or refresh, which runs what is needed"
        )
    return asked


def _seal(context: Context, asked: dict[str, Any]) -> str:
    """Adds what the bundle still lacks and lists all its files; the checksum of that list."""
    fs, uri = context.fs, context.run.folder("bundle")
    folder = local_copy(fs, uri)
    for rest in (folder / "labels", folder / MANIFEST):  # of an attempt that did not finish
        shutil.rmtree(rest, ignore_errors=True) if rest.is_dir() else rest.unlink(missing_ok=True)
    for hidden in folder.rglob(".*.crc"):  # Hadoop's, of the files it wrote; they are not part of the bundle
        hidden.unlink()
    _label_names(context).save(folder / "labels")
    checksum = write_manifest(folder, asked)
    if fs.local_path(uri) is None:
        fs.upload(folder / "labels", joined(uri, "labels"))
        fs.upload(folder / MANIFEST, joined(uri, MANIFEST))
        shutil.rmtree(folder.parent)
    return checksum


def _label_names(context: Context) -> LabelNames:
    files = local_copy(context.fs, context.run.table("labels"))
    table = ds.dataset(files, format="parquet").to_table(columns=["id", "key", "text"])
    return LabelNames.of(table["id"].to_numpy(), table["key"], table["text"])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# Nothing here is about the model: how it is asked was settled by predict, and evaluated.
STAGE = Stage(
    "publish",
    1,
    ("publish",),
    ("labels", "predictions", "metrics", "bundle/tfidf/", "bundle/model/"),
    ("bundle/labels/",),
    run_publish,
)
