"""`./spark-submit.sh bench`: compares xmcspark with its peers on a dataset or a generated one, prints the
tables and writes the result as JSON. Exits 0 if every system got through, 1 if one failed, 2 for wrong
arguments."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench import inputs
from bench.run import AdapterError, Plan, compare
from bench.systems import DEFAULT_PEERS, STEPS, SYSTEMS, chosen
from bench.table import quality_table, steps_table
from xmcspark.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        plan = _plan(options)
        name, dataset = inputs.load(options.data, options.generate, options.seed)
    except (InputError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-", dir=options.work) as work:
        try:
            result = compare(name, dataset, plan, Path(work))
        except AdapterError as error:
            print(f"bench: no features to train on: {error}", file=sys.stderr)
            return 1
    for key in ("cpu_s", "wall_s", "peak_mb"):
        print(steps_table(result, key), end="\n\n")
    print(quality_table(result))
    if options.json is not None:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["failures"] else 0


def _plan(options: argparse.Namespace) -> Plan:
    steps = tuple(options.steps.split(","))
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        raise ValueError(f"unknown step {', '.join(unknown)}: choose from {', '.join(STEPS)}")
    for name, value in (("--threads", options.threads), ("--repeat", options.repeat)):
        if value < 1:
            raise ValueError(f"{name} {value}: must be at least 1")
    peers = [name for name in options.peers.split(",") if name]
    systems = chosen(peers)
    if options.without_xmcspark:
        systems = [system for system in systems if system.name != "xmcspark"]
    return Plan(
        systems,
        steps,
        options.threads,
        options.repeat,
        beam=options.beam,
        seed=options.seed,
        features_from=options.features_from,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark-submit.sh bench", description=__doc__)
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--data", metavar="DIR", help="folder with train, test and labels.parquet")
    data.add_argument("--generate", metavar="NxL", help="generated data, for example 300000x100000")
    parser.add_argument("--threads", type=int, default=1, help="threads of every system (default 1)")
    parser.add_argument(
        "--peers",
        default=",".join(DEFAULT_PEERS),
        help=f"comma-separated, of {', '.join(SYSTEMS)} (default %(default)s)",
    )
    parser.add_argument("--steps", default=",".join(STEPS), help="comma-separated (default all)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each system, each with its own seed")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of generated data and of the first repeat")
    parser.add_argument(
        "--features-from",
        default="xmcspark",
        choices=["xmcspark", "sklearn"],
        help="whose TF-IDF all train on",
    )
    parser.add_argument("--without-xmcspark", action="store_true", help="run only the peers")
    parser.add_argument("--work", metavar="DIR", help="where temporary files go (default: the system's)")
    parser.add_argument("--json", metavar="OUT", help="file for the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
