"""The job `verify` for the bundle of a run, wherever it lies. Beside every file, the manifest itself is compared with
the checksum that its publication recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

from xmcspark.command_spark import Job, run_job
from xmcspark.errors import InputError, StoreError
from xmcspark.serving.bundle import MANIFEST, checksum, verify
from xmcspark.serving.run_choice_spark import chosen_run
from xmcspark.store.published import history
from xmcspark.store.runs import Run
from xmcspark.store.side_files import local_copy


def run_verify() -> int:
    """Runs the job; its exit code."""

    def work(job: Job) -> None:
        run = chosen_run(job.spark, job.config)
        print(f"{run.folder('bundle')}: {verify_run(run)} files are whole")

    return run_job("verify", work)


def verify_run(run: Run) -> int:
    """Compares every file of a run's bundle with its checksum; how many there are."""
    uri = run.folder("bundle")
    if not run.fs.exists(f"{uri}/{MANIFEST}"):
        raise StoreError(f"run {run.id} has no sealed bundle ({uri}): run publish first")
    folder = local_copy(run.fs, uri)
    try:
        _check_manifest(run, folder)
        return verify(folder)
    finally:
        if run.fs.local_path(uri) is None:
            shutil.rmtree(folder.parent, ignore_errors=True)


def _check_manifest(run: Run, folder: Path) -> None:
    recorded = [p.facts.get("bundle") for p in history(run.fs, run.root) if p.run == run.id]
    if recorded and recorded[-1] is not None and checksum(folder / MANIFEST) != recorded[-1]:
        raise InputError(
            f"{run.folder('bundle')}/{MANIFEST} is not the one that was published (<root>/published has its checksum): "
            "somebody changed it, publish another run"
        )
