"""`./spark-submit.sh verify`: reads every file of a bundle and compares it with the manifest. A bundle on this machine
is read by this process; that of a run is looked up where runs are, by a Spark job. Exits 4 and names each bad file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from xmcspark.errors import InputError
from xmcspark.serving.bundle import verify

_USAGE = """./spark-submit.sh verify BUNDLE
       ./spark-submit.sh verify --config FILE | --root ROOT [--run ID] [-- spark-submit options]"""


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given and not given[0].startswith("-"):
        return _verify_folder(given)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit runs this file again
        from xmcspark.serving.verify_spark import run_verify

        return run_verify()
    if given and given[0] not in ("-h", "--help"):
        from jobs import submit

        return submit.main(["verify", *given])
    _parser().parse_args(given)
    return 2


def _verify_folder(given: list[str]) -> int:
    folder = Path(_parser().parse_args(given).bundle)
    try:
        files = verify(folder)
    except InputError as error:
        for line in str(error).splitlines():
            print(f"verify: {line}", file=sys.stderr)
        return error.exit_code
    print(f"{folder}: {files} files are whole")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-submit.sh verify", usage=_USAGE, description=__doc__, allow_abbrev=False
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="folder of a bundle on this machine")
    return parser


if __name__ == "__main__":
    sys.exit(main())
