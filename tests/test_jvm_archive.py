"""Who makes the archive of Spark's classes and who uses it."""

import os
import subprocess
import sys

import pytest

from jobs.jvm_archive import archive_options


@pytest.fixture
def machine(tmp_path):
    java = tmp_path / "java"
    java.touch()
    (tmp_path / "build").mkdir()
    return tmp_path / "build", java, tmp_path / "spark"


def test_one_job_makes_it_and_later_ones_use_it_once_it_is_whole(machine):
    folder = machine[0]
    made = archive_options(*machine, make=True).partition("ArchiveClassesAtExit=")[2]
    assert made.endswith(f".of-{os.getpid()}")
    assert archive_options(*machine, make=False) == ""
    made = made.replace(str(os.getpid()), str(os.getppid()))
    open(made, "w").close()  # by a process that lives: it may be half-written
    assert "SharedArchiveFile" not in archive_options(*machine, make=False)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    os.rename(made, made.replace(str(os.getppid()), ended.stdout.strip()))
    assert f"-XX:SharedArchiveFile={folder}" in archive_options(*machine, make=True)


def test_another_java_has_another(machine):
    _, java, _ = machine
    one = archive_options(*machine, make=True)
    os.utime(java, (1, 1))
    assert archive_options(*machine, make=True) != one


def test_a_path_that_options_cannot_hold_goes_without(machine):
    folder, java, spark = machine
    (folder / "a b").mkdir()
    assert archive_options(folder / "a b", java, spark, make=True) == ""


def test_it_can_be_turned_off(machine, monkeypatch):
    monkeypatch.setenv("XMCSPARK_JVM_ARCHIVE", "0")
    assert archive_options(*machine, make=True) == ""
