"""Writes a package: a folder with everything that a cluster needs to run the jobs, to be copied to s3:// or to one of
its machines. Decides that it appears as a whole or not at all, and that it holds nothing of this machine."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from xmcspark.config.command_line import is_uri
from xmcspark.config.configuration import Config
from xmcspark.errors import InputError
from xmcspark.packaging.archive import Content, write_archive
from xmcspark.packaging.emr_documents import ARCHIVE, CONFIG, emr_job_run, emr_step
from xmcspark.packaging.environment import PYTHON, environment_files, interpreter_files
from xmcspark.packaging.spark_settings import read_settings
from xmcspark.packaging.target import check_glibc, requirements_of
from xmcspark.serving.bundle import checksum

MANIFEST = "manifest.json"
KIND = "xmcspark package"


@dataclass(frozen=True)
class Wishes:
    """What a package is made for."""

    extras: tuple[str, ...] = ()
    with_python: bool = False  # for machines that have no Python of this version
    at: str | None = None  # where it will lie, for example s3://bucket/xmcspark
    glibc: tuple[int, ...] | None = None  # of the oldest machine it must run on


def write_package(root: Path, out: Path, config: Config | None, wishes: Wishes) -> dict[str, Any]:
    """Makes the folder `out` from the clone at `root`, in place of an older package; its manifest."""
    if out.exists() and not is_package(out):
        raise InputError(f"{out} is there and is no package: name a folder that does not exist yet")
    out.parent.mkdir(parents=True, exist_ok=True)
    made = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
    try:
        made.mkdir()
        manifest = _fill(root, made, config, wishes)
        if out.exists():
            out.rename(old := out.with_name(f"{made.name}.old"))
            made.rename(out)
            shutil.rmtree(old)
        else:
            made.rename(out)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return manifest


def is_package(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["kind"] == KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def job_names(root: Path) -> list[str]:
    """The jobs that run on Spark, as the launcher lists them."""
    names = re.findall(r'^\s*"(\w+)\|spark\|', (root / "spark-submit.sh").read_text(), re.MULTILINE)
    assert "refresh" in names, "the launcher's list of jobs is not as it was"
    return names


def _fill(root: Path, folder: Path, config: Config | None, wishes: Wishes) -> dict[str, Any]:
    needs, environment = _write_environment(folder / ARCHIVE, wishes)
    for job in job_names(root):
        _copy(root / "jobs" / f"{job}.py", folder / "jobs" / f"{job}.py")
    for name in ("standalone", "emr", "emr-serverless"):
        _copy(root / "conf" / f"spark-{name}.conf", folder / "conf" / f"spark-{name}.conf")
    if config is not None:
        (folder / CONFIG).write_text(config.to_json(), encoding="utf-8")
    _copy(root / "conf" / "airflow" / "xmcspark_nightly.py", folder / "airflow" / "xmcspark_nightly.py")
    if wishes.at is not None:
        _write_documents(folder / "airflow", wishes.at.rstrip("/"), root / "conf")
    manifest = {
        "kind": KIND,
        "version": 1,
        "xmcspark": version("xmcspark"),
        "extras": sorted(wishes.extras),
        "needs": needs,
        "environment": environment,
        "files": {
            path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": checksum(path)}
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }
    _write_json(folder / MANIFEST, manifest)
    return manifest


def _write_environment(path: Path, wishes: Wishes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes the archive; (what it needs of a machine, what it holds)."""
    found, versions = environment_files(list(wishes.extras))
    if wishes.with_python:
        found |= interpreter_files()
    needs = requirements_of(
        file for place, file in found.items() if ".so" in place.name or place.parent.name == "bin"
    )
    if wishes.glibc is not None:
        check_glibc(needs, wishes.glibc)
    script = Path(__file__).with_name("python.sh").read_text(encoding="utf-8")
    script = script.replace("@PYTHON@", PYTHON).replace("@MACHINE@", needs["machine"])
    files: dict[PurePosixPath, Content] = {**found, PurePosixPath("bin/python"): script.encode()}
    unpacked = write_archive(path, files)
    needs["python_from"] = "the archive" if wishes.with_python else "the machine"
    return needs, {"packages": versions, "unpacked_bytes": unpacked}


def _write_documents(folder: Path, at: str, conf: Path) -> None:
    """The requests to EMR, beside the DAG that reads them, with Airflow's names for the day and for a name that no
    other attempt has."""
    outcome = f"{at}/outcomes/{{{{ ds }}}}-{{{{ macros.uuid.uuid4() }}}}.json"
    arguments = ["--date", "{{ ds }}", "--outcome", outcome]
    step = emr_step(at, "refresh", arguments, read_settings(conf / "spark-emr.conf"))
    _write_json(folder / "emr-step.json", step)
    run = emr_job_run(at, "refresh", arguments, read_settings(conf / "spark-emr-serverless.conf"))
    _write_json(folder / "emr-serverless-job-run.json", run)


def local_paths(config: Config) -> Sequence[str]:
    """Settings that name a path without a filesystem, which every machine of the cluster would have to see."""
    named = {"run.root": config.run.root}
    for name in ("logs", "train", "test", "labels", "exclude"):
        named[f"input.{name}"] = getattr(config.input, name) or "none:"
    return [f"{key}: {path}" for key, path in named.items() if not is_uri(path)]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
