"""The memory of what a command starts is seen, whoever of its children has it."""

import subprocess
import sys

from bench.process_memory import PeakMemory

CHILD = "import time; held = bytearray(90 << 20); time.sleep(0.6)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}, 'large'])"


def test_the_peak_of_a_child_is_told_apart_from_its_parents():
    process = subprocess.Popen([sys.executable, "-c", PARENT, "small"])
    kinds = {
        "large": lambda command: command.rstrip().endswith(" large"),
        "small": lambda command: command.rstrip().endswith(" small"),
        "none": lambda command: False,
    }
    with PeakMemory(process.pid, kinds) as memory:
        assert process.wait() == 0
    assert 94 < memory.peaks["large"] < 150
    assert 0 < memory.peaks["small"] < 60
    assert memory.peaks["none"] == 0
