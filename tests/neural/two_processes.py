"""Runs a program as two processes that find each other on the loopback, as torchrun would start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def run_two(program: Path, *arguments: object, path: tuple[Path, ...] = ()) -> None:
    """Both must end well. `path`: where they find modules, too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, str(program), *map(str, arguments)]
    modules = os.pathsep.join([*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])])
    shared = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": modules}
    started = []
    for rank in ("0", "1"):
        own = dict(zip(VARIABLES, (rank, "2", rank, "127.0.0.1", port), strict=True))
        started.append(subprocess.Popen(command, env=shared | own, stderr=subprocess.PIPE, text=True))
    try:
        said = [process.communicate(timeout=300)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
