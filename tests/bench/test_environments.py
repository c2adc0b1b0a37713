import subprocess
import sys
from pathlib import Path

import pytest

import bench
from bench import environments
from bench.systems import SYSTEMS

PINS = Path(bench.__file__).parent / "peers"


def test_every_environment_has_exact_pins():
    for name in {system.environment for system in SYSTEMS.values()} - {None}:
        lines = [line.split("#")[0].split() for line in (PINS / f"{name}.txt").read_text().splitlines()]
        assert all("==" in package for packages in lines for package in packages)


def test_every_system_has_its_adapter():
    assert all(system.script.exists() for system in SYSTEMS.values())


def test_our_own_system_runs_in_this_interpreter():
    assert environments.python_of(None) == Path(sys.executable)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Records which environments are made instead of making them."""
    folders = []

    def make(folder, pins):
        folders.append(folder.name)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()

    monkeypatch.setenv("XMCSPARK_BENCH_ENVS", str(tmp_path))
    monkeypatch.setattr(environments, "_make", make)
    return folders


def test_an_environment_is_made_once_and_anew_when_pins_change(made, tmp_path):
    for _ in range(2):
        assert environments.python_of("omikuji") == tmp_path / "omikuji" / "bin" / "python"
    assert made == ["omikuji"]
    (tmp_path / "omikuji" / "pins.txt").write_text("omikuji==0.0.1")
    environments.python_of("omikuji")
    assert made == ["omikuji", "omikuji"]


def test_a_package_that_cannot_be_installed_is_named(monkeypatch, tmp_path):
    def refuse(command, **options):
        installing = "install" in command
        return subprocess.CompletedProcess(command, int(installing), "", "no matching distribution")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(RuntimeError, match=r"could not install a==1\.0 b==2(.|\n)*no matching distribution"):
        environments._make(tmp_path / "env", "# pins\na==1.0 b==2\n")
