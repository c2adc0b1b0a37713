"""bin/python of a packed environment: which interpreter it finds, and what it says where there is none."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from xmcspark.packaging import package

SCRIPT = Path(package.__file__).with_name("python.sh").read_text()
BASE = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
MACHINE = platform.machine()
TELL = "import sys; print(sys.executable, sys.version_info[:2] >= (3, 11), sys.path[1], sep='|')"


@pytest.fixture
def start(tmp_path):
    def run(*arguments, machine=MACHINE, version=package.PYTHON, **environment):
        script = tmp_path / "environment" / "bin" / "python"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(SCRIPT.replace("@PYTHON@", version).replace("@MACHINE@", machine))
        script.chmod(0o755)
        given = {"PATH": "/usr/bin:/bin", **environment}
        return subprocess.run([script, *arguments], env=given, capture_output=True, text=True, cwd=tmp_path)

    return run


def test_it_runs_the_interpreter_named_under_its_own_name_with_its_own_packages_first(start, tmp_path):
    shown = start("-c", TELL, XMCSPARK_BASE_PYTHON=BASE, PYTHONPATH="/spark")
    here = tmp_path / "environment"
    assert shown.stdout == f"{here}/bin/python|True|{here}/lib/python{package.PYTHON}/site-packages\n", (
        shown.stderr
    )


def test_it_finds_the_machines_interpreter_on_the_path(start):
    path = f"{Path(BASE).parent}:/usr/bin:/bin"
    assert start("-c", "import ssl, ctypes; print('found')", PATH=path).stdout == "found\n"


def test_what_it_starts_finds_the_same_packages(start, tmp_path):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', " + repr(TELL) + "])"
    shown = start("-c", code, XMCSPARK_BASE_PYTHON=BASE)
    assert shown.stdout.startswith(f"{tmp_path}/environment/bin/python|True|{tmp_path}/environment/lib/"), (
        shown.stderr
    )


def test_it_takes_no_interpreter_of_another_version(start):
    shown = start("-c", "print(1)", version="3.99")
    assert shown.returncode == 3
    assert "has no Python 3.99" in shown.stderr
    assert "--with-python" in shown.stderr


def test_an_interpreter_that_was_named_and_is_not_there_is_not_replaced_by_another(start):
    assert start("-c", "print(1)", XMCSPARK_BASE_PYTHON="/nonexistent/python").returncode == 3


def test_a_machine_of_another_kind_is_told_so(start):
    shown = start("-c", "print(1)", machine="sparc")
    assert shown.returncode == 3
    assert "built for sparc" in shown.stderr


def test_the_exit_code_is_that_of_the_program(start):
    assert start("-c", "raise SystemExit(5)", XMCSPARK_BASE_PYTHON=BASE).returncode == 5
    assert os.path.isabs(BASE)
