"""A job does not outlive its JVM, and does outlive anything else that started it."""

import os
import signal
import subprocess
import sys
import time

import pytest

# A parent that starts a child, tells its number and waits. The child watches, and works for ten seconds at most.
_CHILD = (
    "import time; from xmcspark.store.orphan import end_with_the_jvm; end_with_the_jvm(0.05); "
    "print('up', flush=True); time.sleep(10)"
)
_PARENT = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE); "
    "child.stdout.readline(); print(child.pid, flush=True); child.wait()"
)


@pytest.mark.parametrize("started_by_jvm", [True, False])
def test_a_job_ends_when_the_jvm_that_started_it_is_killed(started_by_jvm):
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_GATEWAY_PORT"}
    environment |= {"PYSPARK_GATEWAY_PORT": "1"} if started_by_jvm else {}
    command = [sys.executable, "-c", _PARENT, _CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    assert _ends(child, within_s=5 if started_by_jvm else 1) == started_by_jvm
    if not started_by_jvm:
        os.kill(child, signal.SIGKILL)


def _ends(pid: int, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":  # ended, and nobody has asked how
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False
