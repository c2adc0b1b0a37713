"""A package of this clone with an environment of three small files: the real one takes half a minute."""

from pathlib import Path

import pytest

from jobs.submit import ROOT
from xmcspark.config.configuration import load
from xmcspark.packaging import package
from xmcspark.packaging.environment import SITE
from xmcspark.packaging.package import Wishes, write_package


@pytest.fixture
def small_environment(tmp_path, monkeypatch):
    """Replaces the files of the environment; the folder they lie in."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "module.py").write_text("answer = 42\n")
    (folder / "template.py").write_text("this is {{ no }} module\n")
    (folder / "kernel.so").write_bytes(b"\x7fELF\0GLIBC_2.14\0GLIBC_2.9\0GLIBCXX_3.4.29\0")
    files = {SITE / path.name: path for path in folder.iterdir()}
    monkeypatch.setattr(package, "environment_files", lambda extras: (files, {"module": "1.0"}))
    return folder


@pytest.fixture
def write(small_environment, tmp_path):
    """`write()`: the folder of a package and its manifest."""

    def make(name: str = "package", **wishes) -> tuple[Path, dict]:
        config = load(None, ["run.root=s3://bucket/runs", "input.logs=s3://bucket/logs"])
        out = tmp_path / name
        return out, write_package(ROOT, out, config, Wishes(**wishes))

    return make
