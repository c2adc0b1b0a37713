"""`./spark-submit.sh config`: prints a method's configuration file to start from, or checks a configuration and
prints it resolved. Exits 2 with every problem on stderr if there are any."""

from __future__ import annotations

import argparse
import sys

from xmcspark.config.configuration import load
from xmcspark.config.presets import METHODS
from xmcspark.config.skeleton import skeleton
from xmcspark.errors import ConfigError


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.skeleton is None and options.config is None and not options.set:
        parser.error("give --skeleton METHOD, or --config FILE and any number of --set KEY=VALUE")
    if options.skeleton is not None and (options.config is not None or options.set):
        parser.error("--skeleton prints defaults: it does not go with --config or --set")
    try:
        if options.skeleton is not None:
            print(skeleton(options.skeleton), end="")
        else:
            print(load(options.config, options.set).to_json(), end="")
    except ConfigError as error:
        for problem in error.problems:
            print(f"config: {problem}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark-submit.sh config", description=__doc__, allow_abbrev=False)
    parser.add_argument("--skeleton", metavar="METHOD", help=f"one of {', '.join(METHODS)}")
    parser.add_argument("--config", metavar="FILE", help="YAML, or the JSON that this job prints")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override one setting, for example train.threshold=0.05 or text.vectorizers.0.min_df=2; repeatable",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
