"""Sample logs where `input.logs` says, on any filesystem. Decides that they are written once for the same settings,
and never into a folder that holds anything else."""

from __future__ import annotations

import dataclasses
import json
import logging
import tempfile

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.corpus.sample_logs import sample_records, write_sample_logs
from xmcspark.errors import InputError
from xmcspark.store.filesystem import Filesystem, joined

log = logging.getLogger(__name__)

_MARK = "_sample.json"  # names that begin so are hidden from Spark
_VERSION = 1  # of the generator: raised when the same settings give other logs


def ensure_sample_logs(spark: SparkSession, config: Config) -> None:
    """Writes the sample logs if `input.sample` asks for them and they are not there."""
    if not config.input.sample or config.input.logs is None:
        return
    fs = Filesystem(spark)
    folder = fs.qualified(config.input.logs)
    mark = joined(folder, _MARK)
    wanted = json.dumps({"version": _VERSION, **dataclasses.asdict(config.sample)}, sort_keys=True)
    there = fs.list(folder)
    if any(entry.name == _MARK for entry in there):
        if fs.read_text(mark) == wanted:
            return
    elif there:
        raise InputError(
            f"{folder} holds files that are not sample logs, so no sample is written there: name another folder in "
            "input.logs, or set input.sample to false to read what is there"
        )
    log.info(
        "writing sample logs to %s: %s records of %s days",
        folder,
        f"{sample_records(config.sample):,}",
        config.sample.days,
    )
    fs.write_text(mark, "unfinished")  # from here on the folder is ours, also after a kill
    for entry in there:
        if entry.name != _MARK:
            fs.delete(entry.uri)
    with tempfile.TemporaryDirectory(prefix="xmcspark-sample-") as made:
        for file in write_sample_logs(made, config.sample):
            fs.upload(file, joined(folder, *file.relative_to(made).parts))
    fs.write_text(mark, wanted)
