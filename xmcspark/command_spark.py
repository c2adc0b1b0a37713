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

from pyspark.sql import SparkSession

from xmcspark import errors
from xmcspark.config.configuration import Config, from_mapping
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.flow_spark import dated, open_run, stage_named
from xmcspark.store.runner import run_stage
from xmcspark.store.session import open_session, start_logging

log = logging.getLogger(__name__)

# Failures that another attempt may not meet: machines and connections that come and go.
_TRANSIENT = re.compile(
    r"ExecutorLostFailure|FetchFailed|Connection (refused|reset)|SlowDown|ServiceUnavailable|SocketTimeout|"
    r"Master removed our application|UnknownHostException|No space left on device|RpcTimeout"
)
_OURS = re.compile(r"xmcspark\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\tat |\Z)", re.DOTALL)


@dataclass(frozen=True)
class Job:
    """A job at work."""

    spark: SparkSession
    config: Config


def run_job(name: str, work: Callable[[Job], None]) -> int:
    """Runs `work` with a session and the configuration of the command line; the exit code."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--resolved", required=True, help="the configuration as JSON, from spark-submit.sh")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    start_logging(logging.DEBUG if options.verbose else logging.INFO)
    try:
        config = from_mapping(json.loads(options.resolved))
    except (ValueError, errors.ConfigError) as error:
        return _failed(name, error)
    spark = open_session(name)
    try:
        work(Job(spark, config))
        return 0
    except KeyboardInterrupt:
        log.error("%s: interrupted; run the same command again to go on", name)
        return 130
    except Exception as error:
        return _failed(name, error)
    finally:
        spark.stop()


def run_stage_job(name: str) -> int:
    """The job of one stage."""

    def work(job: Job) -> None:
        ensure_sample_logs(job.spark, job.config)
        config = dated(job.spark, job.config)
        run, base = open_run(job.spark, config, create=name in ("ingest", "corpus"))
        run_stage(job.spark, config, run, base, stage_named(name))

    return run_job(name, work)


def _failed(name: str, error: Exception) -> int:
    """Says what went wrong, for a person, and returns its exit code."""
    message, code = explained(error)
    if code == 1:  # not foreseen: the trace is for us
        log.error("%s failed", name, exc_info=error)
    for line in message.splitlines():
        print(f"{name}: {line}", file=sys.stderr)
    return code


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
    if found := _TRANSIENT.search(text):
        return (
            f"{found[0]}: Spark lost a machine, a connection or its disk; finished work is kept, run the same command "
            f"again\n{text.strip().splitlines()[0]}",
            errors.TransientError.exit_code,
        )
    return text.strip().splitlines()[0] if text.strip() else repr(error), 1
