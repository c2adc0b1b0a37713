"""A run as a plan sees it: its settings, what its stages noted, what they took. Read without Spark, from a folder or an
s3:// URI."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from xmcspark.config.command_line import absolute, is_uri
from xmcspark.errors import StoreError

_STAGES = (
    *("ingest", "corpus", "augment", "vectorize", "encode"),
    *("index", "train", "predict", "evaluate", "publish"),
)


@dataclass(frozen=True)
class RunFolder:
    """One run. Stages that are not finished are not there."""

    uri: str
    files: fs.FileSystem
    path: str

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def local(self) -> Path | None:
        """Its folder, if it is on this machine."""
        return Path(self.path) if isinstance(self.files, fs.LocalFileSystem) else None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration that it was opened with."""
        return dict((self._document("run.json") or {}).get("config") or {})

    @cached_property
    def stages(self) -> dict[str, dict[str, Any]]:
        """Records of the finished stages, in order."""
        found = {stage: self._document(f"stages/{stage}.json") for stage in _STAGES}
        return {stage: record for stage, record in found.items() if record is not None}

    def notes(self, stage: str) -> dict[str, Any]:
        return dict(self.stages.get(stage, {}).get("notes") or {})

    @property
    def slots(self) -> int | None:
        """Tasks at a time, if its stages all had as many."""
        known = {record.get("measured", {}).get("slots") for record in self.stages.values()}
        return known.pop() if len(known) == 1 else None

    @property
    def start_seconds(self) -> float | None:
        """Of a refresh that ran all stages: what was spent outside of them, once Spark had started."""
        summary = self._document("summary.json") or {}
        stages = summary.get("stages") or []
        if not stages or any(stage.get("skipped") for stage in stages):
            return None
        return max(0.0, float(summary["seconds"]) - sum(float(stage["seconds"]) for stage in stages))

    def need(self, stage: str) -> None:
        """StoreError that says what to run if a stage is not finished."""
        if stage not in self.stages:
            raise StoreError(
                f"run {self.name} ({self.uri}) has no finished {stage}: run ./spark-submit.sh {stage} --run "
                f"{self.name} with its configuration first, or give the statistics as flags (--instances, --labels, "
                "--pairs)"
            )

    def _document(self, name: str) -> dict[str, Any] | None:
        """None if it is not there, or was not written to its end."""
        try:
            with self.files.open_input_stream(f"{self.path}/{name}") as stream:
                document = json.loads(stream.read())
        except FileNotFoundError:
            return None
        except ValueError:
            return None
        except OSError as error:
            raise StoreError(f"{self.uri}/{name} cannot be read: {error}") from error
        return document if isinstance(document, dict) else None


def open_run(given: str, root: str) -> RunFolder:
    """A run by its id under `root`, or by its folder or URI. StoreError if there is none."""
    uri = given if "/" in given else f"{root.rstrip('/')}/{given}"
    uri = absolute(uri).rstrip("/").replace("s3a://", "s3://", 1)
    try:
        files, path = fs.FileSystem.from_uri(uri) if is_uri(uri) else (fs.LocalFileSystem(), uri)
        run = RunFolder(uri, files, path)
        there = files.get_file_info(f"{path}/run.json").type == fs.FileType.File
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError(f"{uri} cannot be looked into from here: {error}") from error
    if not there:
        raise StoreError(f"there is no run in {uri} (no run.json): give a run's id and --root, or its folder")
    return run
