"""The options that only the job `compare` takes: the same for ./spark-submit.sh and for the script that it starts."""

from __future__ import annotations

import argparse

from xmcspark.config.command_line import absolute
from xmcspark.quality.bootstrap import COMPARED_REPLICATES


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--with",
        dest="other",
        required=True,
        metavar="RUN",
        help="the run to compare with: its id, or ROOT/ID if it lies under another root",
    )
    parser.add_argument(
        "--common", action="store_true", help="compare on the instances that both runs have, if they differ"
    )
    parser.add_argument(
        "--split",
        choices=("test", "train"),
        default="test",
        help="the instances to compare on (default test)",
    )
    parser.add_argument(
        "--replicates",
        type=int,
        default=COMPARED_REPLICATES,
        metavar="N",
        help=f"resamples that intervals and p-values are made of (default {COMPARED_REPLICATES})",
    )


def compare_arguments(options: argparse.Namespace) -> list[str]:
    """The options as they were given, for the script, which may run in another folder."""
    other = absolute(options.other) if "/" in options.other else options.other
    arguments = ["--with", other, "--split", options.split, "--replicates", str(options.replicates)]
    return arguments + (["--common"] if options.common else [])
