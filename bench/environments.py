"""The peers' own virtual environments, made on first use from the pins in bench/peers and kept. Decides where
they live (`$XMCSPARK_BENCH_ENVS`, else .venv-bench in the repository) and when one must be made anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_PINS = Path(__file__).parent / "peers"


def python_of(environment: str | None) -> Path:
    """The interpreter of an environment, which is made if it is not there with the pinned versions."""
    if environment is None:
        return Path(sys.executable)
    folder = _root() / environment
    pins = (_PINS / f"{environment}.txt").read_text()
    python, stamp = folder / "bin" / "python", folder / "pins.txt"
    if not (python.exists() and stamp.exists() and stamp.read_text() == pins):
        _make(folder, pins)
        stamp.write_text(pins)  # last: an interrupted install is started afresh
    return python


def _root() -> Path:
    given = os.environ.get("XMCSPARK_BENCH_ENVS")
    return Path(given) if given else Path(__file__).resolve().parents[1] / ".venv-bench"


def _make(folder: Path, pins: str) -> None:
    print(f"making the environment {folder} (once)", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    lines = (line.split("#")[0].split() for line in pins.splitlines())
    for packages in filter(None, lines):
        done = subprocess.run(
            [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *packages],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(
                f"could not install {' '.join(packages)} into {folder}:\n{done.stderr[-2000:]}\n"
                "check the network and the pins in bench/peers, or leave this peer out with --peers"
            )
