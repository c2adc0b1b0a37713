"""A task that predicts many times as many rows needs no more memory."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("predict_memory.py")


def run(*arguments: object) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("mode", ["replicated", "routed"])
def test_peak_memory_does_not_grow_with_the_rows_of_a_task(tmp_path, mode):
    run(tmp_path, "save", 0)
    # Enough rows that groups scored together are full in both: 63 MB of rows, 252 MB.
    few, many = (int(run(tmp_path, mode, blocks)) for blocks in (48, 192))
    # Rows that are held would show as 189 MB; the allocator may keep some of what was freed.
    assert many < few + (70 << 20)
