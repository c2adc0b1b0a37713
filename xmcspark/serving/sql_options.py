"""The options that only the job `sql` takes: the same for ./spark-submit.sh and for the script that it starts."""

from __future__ import annotations

import argparse


def add_sql_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-e", dest="execute", metavar="QUERY", help="answer this and end; without it, a prompt"
    )
    parser.add_argument(
        "--rows", type=int, default=50, metavar="N", help="rows shown of an answer (default 50)"
    )
    parser.add_argument("--full-width", action="store_true", help="show long values whole")


def sql_arguments(options: argparse.Namespace) -> list[str]:
    """The options as they were given, for the script."""
    arguments = ["--rows", str(options.rows)] + (["--full-width"] if options.full_width else [])
    return arguments + ([] if options.execute is None else [f"-e{options.execute}"])
