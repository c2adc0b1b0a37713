"""The options that every job takes, the same for ./spark-submit.sh and for a script of jobs/ that a cluster starts by
itself, and what they say about the configuration."""

from __future__ import annotations

import argparse
import re
from pathlib import Path


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Where the configuration comes from."""
    parser.add_argument("--config", metavar="FILE", help="YAML or JSON; none: all defaults")
    parser.add_argument("--root", metavar="ROOT", help="folder or URI under which all runs live (run.root)")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override one setting, for example train.threshold=0.05; repeatable",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every job takes."""
    add_settings(parser)
    parser.add_argument("--date", metavar="DAY", help="last day of the logs to learn from: YYYY-MM-DD")
    parser.add_argument("--run", metavar="ID", help="id of the run to work on (run.id)")
    parser.add_argument(
        "--outcome",
        metavar="FILE",
        help="where to write the exit code at the end, as JSON: for schedulers that only see success or failure",
    )
    parser.add_argument("--verbose", action="store_true", help="log more")


def overrides_of(options: argparse.Namespace) -> list[str]:
    """`key=value` for everything the options say."""
    overrides: list[str] = list(options.set)
    if options.date is not None:
        overrides.append(f"run.date={options.date!r}")
    if options.run is not None:
        overrides.append(f"run.id={options.run!r}")
    if options.root is not None:
        overrides.append(f"run.root={options.root!r}")
    return overrides


def is_uri(path: str) -> bool:
    """Whether it names a filesystem, as s3://bucket does, and not just a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) is not None


def absolute(path: str) -> str:
    """A local relative path made absolute; URIs stay as they are."""
    return path if is_uri(path) else str(Path(path).absolute())
