"""What every Spark job does around its work: reads the resolved configuration, opens the session and the run, and
turns whatever goes wrong into a message and an exit code (docs/run-book.md)."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from xmcspark import errors
from xmcspark.config.command_line import add_options, is_uri, overrides_of
from xmcspark.config.configuration import Config, from_mapping, load
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.flow_spark import dated, open_run, stage_named
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.orphan import end_with_the_jvm
from xmcspark.store.runner import run_stage
from xmcspark.store.session import open_session, start_logging
from xmcspark.store.side_files import remove_copies

log = logging.getLogger(__name__)

# Failures that another attempt may not meet: machines and connections that come and go.
_TRANSIENT = re.compile(
    r"ExecutorLostFailure|FetchFailed|Connection (refused|reset)|SlowDown|ServiceUnavailable|SocketTimeout|"
    r"Master removed our application|UnknownHostException|RpcTimeout"
)
_FULL = re.compile(r"(?:No space left on device|Disk quota exceeded)(?:: '([^']+)')?")
_OURS = re.compile(r"xmcspark\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\tat |\Z)", re.DOTALL)


@dataclass(frozen=True)
class Job:
    """A job at work."""

    spark: SparkSession
    config: Config
    options: argparse.Namespace  # as the command line had them


def run_job(
    name: str,
    work: Callable[[Job], None],
    add_own_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> int:
    """Runs `work` with a session and the configuration of the command line; the exit code."""
    parser = _parser(name)
    add_own_options(parser)
    options = parser.parse_args()
    start_logging(logging.DEBUG if options.verbose else logging.INFO)
    end_with_the_jvm()
    config, code, message = None, 0, ""
    try:
        if options.resolved is not None:  # wrong settings are found before Spark starts
            config = from_mapping(json.loads(options.resolved))
    except (ValueError, errors.ConfigError) as error:
        return _failed(name, error)[0]
    spark = None
    try:
        spark = _started_session(name)
        config = config or load(options.config, overrides_of(options), _reader(spark))
        work(Job(spark, config, options))
    except KeyboardInterrupt:
        log.error("%s: interrupted; run the same command again to go on", name)
        code, message = 130, "interrupted"
    except Exception as error:
        code, message = _failed(name, error)
    finally:
        if spark is not None:
            _write_outcome(spark, options.outcome, {"job": name, "exit_code": code, "message": message})
            spark.stop()
        remove_copies()
    return code


def _started_session(name: str) -> SparkSession:
    try:
        return open_session(name)
    except Exception as error:
        message, code = explained(error)
        if code != 1:
            raise
        raise errors.ConfigError(
            [
                f"Spark could not be started: {message}; check the options after -- and the settings of the cluster"
            ]
        ) from error


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
    parser.add_argument(
        "--resolved", help="the configuration as JSON, from spark-submit.sh, instead of --config"
    )
    add_options(parser)
    return parser


def _reader(spark: SparkSession) -> Callable[[str | Path], str]:
    """Reads a configuration from wherever Spark can: a script that a cluster starts gets it as s3://."""
    fs = Filesystem(spark)

    def text_of(path: str | Path) -> str:
        # A path without a scheme is one of this machine, whatever the cluster's own filesystem is.
        uri = str(path) if is_uri(str(path)) else Path(path).absolute().as_uri()
        try:
            return fs.read_text(uri)
        except FileNotFoundError as error:
            raise errors.ConfigError([f"--config {path}: there is no such file"]) from error

    return text_of


def _write_outcome(spark: SparkSession, uri: str | None, outcome: dict[str, object]) -> None:
    """For a scheduler, which in cluster deploy mode learns only that a job failed, not how."""
    if uri is None:
        return
    try:
        Filesystem(spark).write_text(uri, json.dumps(outcome) + "\n")
    except Exception as error:  # what happened to the job matters more
        log.error("the outcome could not be written to %s: %s", uri, error)


def run_stage_job(name: str) -> int:
    """The job of one stage."""

    def work(job: Job) -> None:
        ensure_sample_logs(job.spark, job.config)
        config = dated(job.spark, job.config)
        run, base = open_run(job.spark, config, create=name in ("ingest", "corpus"))
        run_stage(job.spark, config, run, base, stage_named(name))

    return run_job(name, work)


def _failed(name: str, error: Exception) -> tuple[int, str]:
    """Says what went wrong, for a person; (exit code, message)."""
    message, code = explained(error)
    if code == 1:  # not foreseen: the trace is for us
        log.error("%s failed", name, exc_info=error)
    for line in message.splitlines():
        print(f"{name}: {line}", file=sys.stderr)
    return code, message


def explained(error: Exception) -> tuple[str, int]:
    """(message, exit code). Errors raised inside tasks come wrapped in Spark's: ours are dug out again."""
    code = getattr(error, "exit_code", None)
    if code is not None:
        return str(error), code
    text = str(error)
    if found := _OURS.search(text):
        kind = getattr(errors, found[1], None)
        if kind is not None:
            return found[2].strip(), kind.exit_code
    if found := _FULL.search(text):
        return (
            f"a disk is full{f' ({found[1]})' if found[1] else ''}: {_first_line(text)}. Make room where run.root and "
            "Spark's own files (spark.local.dir, by default /tmp) are, or move them; finished work is kept, run the "
            "same command again",
            errors.TransientError.exit_code,
        )
    if found := _TRANSIENT.search(text):
        return (
            f"{found[0]}: Spark lost a machine or a connection; finished work is kept, run the same command "
            f"again\n{_first_line(text)}",
            errors.TransientError.exit_code,
        )
    return _first_line(text) or repr(error), 1


def _first_line(text: str) -> str:
    """What was wrong, of a message that may begin with which call met it."""
    lines = [line.strip(": ") for line in text.splitlines() if line.strip(": ")]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return next(iter(told or lines), "")
