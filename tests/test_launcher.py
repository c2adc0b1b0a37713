"""spark-submit.sh on a copy of the repository with a stand-in for python, which notes what it was asked to do.
The real environment is made by .ci/run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PYTHON = f"""#!/usr/bin/env bash
printf '%s\\n' "${{*//$'\\n'/ }}" >>"$CALLS"
case "$*" in
  *fcntl*) exec {sys.executable} "$@" ;;
  --version) echo 'Python 3.11.7' ;;
  '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *' install '*) sleep "${{PIP_SECONDS:-0}}"; echo "${{PIP_SAYS:-}}"; exit "${{PIP_EXIT:-0}}" ;;
  *'import venv'*) exit "${{NO_VENV:-0}}" ;;
  *'"include"'*) echo "$INCLUDE" ;;
  *version_info*) exit "${{TOO_OLD:-0}}" ;;
  *build_ext*) exit "${{BUILD_EXIT:-0}}" ;;
  -P*) shift 4; printf 'ran'; printf ' <%s>' "$@"; exit "${{JOB_EXIT:-0}}" ;;
esac
"""


class Checkout:
    """A repository with a launcher, and what the stand-in was asked."""

    def __init__(self, folder: Path):
        self.root, self.calls_file = folder / "repo", folder / "calls"
        for name in ("native", "conf"):
            (self.root / name).mkdir(parents=True)
        for name in ("native/a.h", "native/a.pyx", "conf/constraints.txt", "setup.py", "pyproject.toml"):
            (self.root / name).write_text(name)
        shutil.copy(ROOT / "spark-submit.sh", self.root)
        python = folder / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)
        (folder / "Python.h").touch()
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("PIP_", "XMCSPARK_"))
            },
            "CALLS": str(self.calls_file),
            "INCLUDE": str(folder),
            "XMCSPARK_PYTHON": str(python),
            "CXX": "bash -c",  # any program that is there
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            [self.root / "spark-submit.sh", *arguments],
            env={**self.environment, **environment},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """One launch; the calls noted are those of this launch."""
        self.calls_file.write_text("")
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def calls(self, part: str) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if part in line]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def ready(checkout):
    assert checkout.run("setup").returncode == 0
    return checkout


def test_help_lists_the_jobs(checkout):
    shown = checkout.run("--help")
    assert shown.returncode == 0
    assert "config" in shown.stdout
    assert "bench" in shown.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["refrsh"], ["setup", "--extras", "tests"], ["setup", "--python"], ["setup", "x"]]
)
def test_wrong_arguments_exit_2_before_anything_is_set_up(checkout, arguments):
    shown = checkout.run(*arguments)
    assert shown.returncode == 2
    assert checkout.calls("") == []
    assert shown.stderr


def test_an_unknown_job_is_answered_with_the_known_ones(checkout):
    shown = checkout.run("refrsh")
    assert "no job refrsh" in shown.stderr
    assert "config" in shown.stderr


def test_every_job_listed_has_a_module(checkout):
    listed = checkout.run("--help").stdout.split("options):\n")[1].splitlines()
    assert listed
    for line in listed:
        assert (ROOT / "jobs" / f"{line.split()[0]}.py").exists()


def test_the_first_run_makes_the_environment_and_goes_on_with_the_job(checkout):
    shown = checkout.run("config", "--set", "a=b c", "*")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == "ran <config> <--set> <a=b c> <*>"
    assert len(checkout.calls("-m venv")) == 1
    assert len(checkout.calls("--no-build-isolation -e")) == 1


def test_a_later_run_only_starts_the_job(ready):
    assert ready.run("config").returncode == 0
    assert len(ready.calls("")) == 1


def test_the_exit_code_is_the_jobs(ready):
    assert ready.run("config", JOB_EXIT="7").returncode == 7


def test_a_job_gets_the_extras_it_needs_and_earlier_ones_stay(checkout):
    assert checkout.run("setup", "--extras", "test").returncode == 0
    assert checkout.calls(f"-e {checkout.root}[test]")
    assert checkout.run("bench").returncode == 0
    assert checkout.calls(f"-e {checkout.root}[bench,test]")
    assert checkout.run("setup", "--extras", "test").returncode == 0
    assert not checkout.calls("install")


@pytest.mark.parametrize("file", ["native/a.h", "native/a.pyx", "native/new.pxd", "setup.py"])
def test_a_changed_kernel_is_built_without_a_new_install(ready, file):
    (ready.root / file).write_text("changed")
    assert ready.run("config").returncode == 0
    assert len(ready.calls("build_ext --inplace")) == 1
    assert not ready.calls("install")
    assert ready.run("config").returncode == 0
    assert not ready.calls("build_ext")


@pytest.mark.parametrize("file", ["pyproject.toml", "conf/constraints.txt"])
def test_changed_requirements_are_installed_into_the_same_environment(ready, file):
    (ready.root / file).write_text("changed")
    assert ready.run("config").returncode == 0
    assert len(ready.calls("--no-build-isolation -e")) == 1
    assert not ready.calls("-m venv")


def test_a_moved_repository_is_set_up_again(ready, tmp_path):
    moved = tmp_path / "elsewhere"
    ready.root.rename(moved)
    ready.root = moved
    assert ready.run("config").returncode == 0
    assert ready.calls(f"-e {moved}")


def test_an_interrupted_install_is_started_afresh(checkout):
    assert checkout.run("config", PIP_EXIT="1").returncode == 1
    (checkout.root / ".venv/half-installed").touch()
    assert checkout.run("config").returncode == 0
    assert len(checkout.calls("-m venv")) == 1
    assert not (checkout.root / ".venv/half-installed").exists()


def test_an_interrupted_build_trusts_no_object_it_left(ready):
    (ready.root / "native/a.h").write_text("changed")
    assert ready.run("config", BUILD_EXIT="1").returncode == 1
    left = ready.root / "build/lib.here/half.so"
    left.parent.mkdir()
    left.touch()
    assert ready.run("config").returncode == 0
    assert not left.exists()
    assert ready.calls("build_ext")


def test_two_launchers_at_once_set_up_once(checkout):
    checkout.calls_file.write_text("")
    launched = [checkout.start("config", PIP_SECONDS="0.3") for _ in range(3)]
    for process in launched:
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert out.startswith("ran")
    assert len(checkout.calls("-m venv")) == 1


def test_a_failed_download_says_what_to_do_and_names_no_host(checkout):
    said = "ERROR: NewConnectionError(https://index.example/simple) host='index.example'"
    shown = checkout.run("config", PIP_EXIT="1", PIP_SAYS=said)
    assert shown.returncode == 1
    assert "PIP_FIND_LINKS" in shown.stderr
    assert "index.example" not in shown.stderr + (checkout.root / "build/setup.log").read_text()


def test_a_python_that_is_too_old_is_refused_with_a_remedy(checkout):
    shown = checkout.run("config", TOO_OLD="1")
    assert shown.returncode == 3
    assert "3.11" in shown.stderr
    assert not (checkout.root / ".venv").exists()


def test_everything_the_machine_lacks_is_named_at_once(checkout):
    shown = checkout.run("config", CXX="no-such-compiler", NO_VENV="1", INCLUDE="/nowhere")
    assert shown.returncode == 3
    for missing in ("no-such-compiler", "python3-venv", "Python.h"):
        assert missing in shown.stderr
    assert not (checkout.root / ".venv").exists()


def test_another_python_does_not_silently_get_the_old_environment(ready, tmp_path):
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho Python 3.12.1\n")
    other.chmod(0o755)
    shown = ready.run("setup", "--python", str(other))
    assert shown.returncode == 2
    assert "3.12.1" in shown.stderr
