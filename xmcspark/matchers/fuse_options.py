"""The options that only the job `fuse` takes: the same for ./spark-submit.sh and for the script that it starts."""

from __future__ import annotations

import argparse
import math

from xmcspark.config.command_line import absolute


def add_fuse_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        required=True,
        type=_names,
        metavar="RUN,RUN,...",
        help="the runs to fuse: ids, or ROOT/ID for those under another root. How: ensemble.fusion; how many labels: "
        "predict.top_k; what is measured: section evaluate. --run names the run that is made",
    )
    parser.add_argument(
        "--weights",
        type=_weights,
        metavar="W,W,...",
        help="what each run counts for, in the same order (default: 1 each)",
    )


def fuse_arguments(options: argparse.Namespace) -> list[str]:
    """The options as they were given, for the script, which may run in another folder."""
    runs = [absolute(name) if "/" in name else name for name in options.runs]
    arguments = ["--runs", ",".join(runs)]
    if options.weights is not None:
        arguments += ["--weights", ",".join(map(str, options.weights))]
    return arguments


def _names(text: str) -> list[str]:
    names = [name.strip().rstrip("/") for name in text.split(",")]
    if len(names) < 2 or not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: name at least two runs, as in --runs first,second")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise argparse.ArgumentTypeError(
            f"{', '.join(twice)} is named twice: name each run once; --weights says how much it counts"
        )
    return names


def _weights(text: str) -> list[float]:
    try:
        weights = [float(word) for word in text.split(",")]
    except ValueError:
        weights = []
    if not weights or any(not math.isfinite(weight) or weight <= 0 for weight in weights):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers above 0, as in --weights 2,1")
    return weights
