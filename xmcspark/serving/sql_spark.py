"""Questions to a run in SQL: one after the other, from the command line, a pipe or a person at a prompt. Decides how
answers look, and what is said of a question that has none."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xmcspark.command_spark import Job, explained, run_job
from xmcspark.errors import ConfigError, StoreError
from xmcspark.serving.run_choice_spark import chosen_run
from xmcspark.serving.sql_options import add_sql_options
from xmcspark.serving.statements import is_blank, split_statements
from xmcspark.serving.views_spark import RegisteredRun, register_run

_CUT = 60  # characters of a value, unless it is asked for at full width
_NOT_FOUND = re.compile(r"\[(?:TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_ROUTINE)[^]]*\][^`]*((?:`[^`]*`\.?)+)")


def run_sql() -> int:
    """Runs the job; its exit code."""
    return run_job("sql", _work, add_sql_options)


def _work(job: Job) -> None:
    found = register_run(job.spark, chosen_run(job.spark, job.config))
    print(told(found), file=sys.stderr)
    options = job.options
    if options.execute is not None:
        for statement in _all_statements([options.execute]):
            answer(job.spark, found, statement, options)
    elif sys.stdin.isatty():
        _talk(job.spark, found, options)
    else:
        for statement in _all_statements(sys.stdin):
            answer(job.spark, found, statement, options)


def told(found: RegisteredRun) -> str:
    """What there is of a run, for a person."""
    lines = [
        f"run {found.run.id} of {found.run.root}",
        f"tables and views: {', '.join(found.names) or 'none'}",
    ]
    if found.functions:
        lines.append(f"functions: {', '.join(found.functions)}")
    lines += [f"not there: {name}: {why}" for name, why in found.missing.items()]
    return "\n".join(lines)


def answer(spark: SparkSession, found: RegisteredRun, statement: str, options: argparse.Namespace) -> None:
    """Runs one statement and prints what it gives."""
    try:
        frame = spark.sql(statement)
        if frame.columns:
            frame.show(options.rows, truncate=False if options.full_width else _CUT)
    except PySparkException as error:
        raise _in_short(error, found) from error
    sys.stdout.flush()


def _talk(spark: SparkSession, found: RegisteredRun, options: argparse.Namespace) -> None:
    """A prompt: a wrong statement is told, and the next one asked for."""
    print("statements end with ; and Ctrl-D leaves", file=sys.stderr)
    for statement in _all_statements(_typed()):
        try:
            answer(spark, found, statement, options)
        except KeyboardInterrupt:
            spark.sparkContext.cancelAllJobs()
            print("interrupted", file=sys.stderr)
        except Exception as error:
            print(explained(error)[0], file=sys.stderr)


def _typed() -> Iterator[str]:
    import readline  # noqa: F401  gives input() a history

    while True:
        try:
            yield input("sql> ") + "\n"
        except EOFError:
            print(file=sys.stderr)
            return


def _all_statements(texts: Iterator[str] | list[str]) -> Iterator[str]:
    """Statements as soon as they end; what is left at the end is one as well."""
    rest = ""
    for text in texts:
        ended, rest = split_statements(rest + text)
        yield from ended
    if not is_blank(rest):
        yield rest.strip()


def _in_short(error: PySparkException, found: RegisteredRun) -> Exception:
    """Spark's error without its plans and stacks; what is missing from the run is named with the reason."""
    text = str(error)
    if named := _NOT_FOUND.search(text):
        name = named[1].replace("`", "").rpartition(".")[2].lower()
        if name in found.missing:
            return StoreError(f"{name} is not there in run {found.run.id}: {found.missing[name]}")
        known = ", ".join([*found.names, *found.functions])
        return ConfigError([f"there is no table, view or function {name}; there are {known}"])
    message, code = explained(error)
    if code != 1:
        return error
    first = message.partition("; line ")[0] if "== SQL ==" not in message else message
    return ConfigError([re.sub(r"\s*SQLSTATE: \w+", "", first)])
