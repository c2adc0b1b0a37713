"""`./spark-submit.sh package`: writes a folder with what a cluster needs to run the jobs: the packed environment with
the compiled kernels, a script for each job, the resolved configuration, Spark settings, a manifest. See docs/emr.md."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path
from typing import Any

from jobs.submit import ROOT, configuration_of
from xmcspark.config.command_line import add_settings
from xmcspark.errors import ConfigError, InputError, PlatformError
from xmcspark.packaging.emr_documents import ARCHIVE
from xmcspark.packaging.package import Wishes, local_paths, write_package
from xmcspark.packaging.target import MACHINES, check_machine, version_numbers

_EXTRAS = ("neural",)


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    extras = tuple(name for name in options.extras.split(",") if name)
    try:
        if unknown := [name for name in extras if name not in _EXTRAS]:
            raise ConfigError([f"--extras {','.join(unknown)}: choose from {', '.join(_EXTRAS)}"])
        if options.at is not None and options.config is None:
            raise ConfigError(["--at needs --config: the requests to EMR name the resolved configuration"])
        check_machine(options.platform)
        given = options.config is not None or options.set or options.root is not None
        config = configuration_of(options) if given else None
        wishes = Wishes(extras, options.with_python, options.at, options.glibc)
        manifest = write_package(ROOT, Path(options.out), config, wishes)
    except (ConfigError, InputError, PlatformError) as error:
        for line in str(error).splitlines():
            print(f"package: {line}", file=sys.stderr)
        return error.exit_code
    for setting in local_paths(config) if config else ():
        print(
            f"package: {setting} has no filesystem: every machine must see it at that path", file=sys.stderr
        )
    print(_told(Path(options.out), manifest))
    return 0


def _told(out: Path, manifest: dict[str, Any]) -> str:
    """What was written, for a person."""
    needs = manifest["needs"]
    archive, unpacked = manifest["files"][ARCHIVE]["size"], manifest["environment"]["unpacked_bytes"]
    libraries = ", ".join(f"{name} {version}" for name, version in needs["at_least"].items())
    return (
        f"{out}\n{ARCHIVE}: {archive / 1e6:.0f} MB, {unpacked / 1e6:.0f} MB unpacked\n"
        f"runs on {needs['system']} {needs['machine']} with Python {needs['python']} of {needs['python_from']}, "
        f"{libraries} or newer (Amazon Linux 2023, EMR 7 and 8: GLIBC 2.34)\n"
        f"{len(manifest['files'])} files, listed with their checksums in manifest.json"
    )


def parser() -> argparse.ArgumentParser:
    """What the job takes."""
    taken = argparse.ArgumentParser(prog="spark-submit.sh package", description=__doc__, allow_abbrev=False)
    taken.add_argument(
        "--out", metavar="DIR", required=True, help="the folder to write; an older package is replaced"
    )
    add_settings(taken)
    taken.set_defaults(date=None, run=None)  # of a night, not of a package
    taken.add_argument(
        "--at", metavar="URI", help="where it will lie, s3://bucket/prefix: writes the requests to EMR"
    )
    taken.add_argument("--extras", default="", metavar="NAMES", help=f"of {', '.join(_EXTRAS)}; default none")
    taken.add_argument(
        "--with-python", action="store_true", help="for machines that have no Python of this version"
    )
    taken.add_argument(
        "--platform", choices=MACHINES, default=platform.machine(), help="refuse to build on another machine"
    )
    taken.add_argument(
        "--glibc",
        metavar="VERSION",
        type=version_numbers,
        help="refuse to need a newer one; EMR 7 and 8 have 2.34",
    )
    return taken


if __name__ == "__main__":
    sys.exit(main())
