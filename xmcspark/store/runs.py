"""Run directories: where a run's tables and folders lie, and which of its stages are finished. A stage is finished
when its record is there, which is written last; without a record its files count for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from xmcspark.errors import StoreError
from xmcspark.store.filesystem import Filesystem, joined

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class StageRecord:
    """A finished stage, or a finished part of one (`train.wave-3`)."""

    stage: str
    key: str
    seconds: float
    rows: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(
        default_factory=dict
    )  # what it read, and the key of the stage that wrote that
    finished_at: str = ""  # UTC, ISO 8601
    measured: dict[str, int] = field(default_factory=dict)  # slots, shuffle_bytes: store/measured.py

    def to_json(self) -> str:
        return json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1, default=str) + "\n"


class Run:
    """One run: `<root>/<id>/tables/<table>`, `stages/<stage>.json`, `manifest.json`, `summary.json`."""

    def __init__(self, fs: Filesystem, root: str, id: str) -> None:
        self.fs, self.id = fs, id
        self.root = fs.qualified(root)
        self.uri = joined(self.root, id)

    def table(self, name: str) -> str:
        return joined(self.uri, "tables", name)

    def folder(self, name: str) -> str:
        return joined(self.uri, name)

    def find_record(self, stage: str) -> StageRecord | None:
        """The record of a finished stage; None if it is not finished."""
        try:
            text = self.fs.read_text(self._record_uri(stage))
        except FileNotFoundError:
            return None
        try:
            fields = json.loads(text)
        except ValueError:  # its writer was killed half-way: then the stage did not finish
            return None
        if fields.pop("version", None) != MANIFEST_VERSION:
            raise StoreError(
                f"{self._record_uri(stage)} was written by another release of xmcspark: use a new run.id"
            )
        return StageRecord(**fields)

    def record(self, stage: str) -> StageRecord:
        found = self.find_record(stage)
        if found is None:
            raise StoreError(f"run {self.id}: stage {stage} has not finished; run it first")
        return found

    def records(self) -> list[StageRecord]:
        """Of all finished stages and parts of stages."""
        names = [entry.name.removesuffix(".json") for entry in self.fs.list(joined(self.uri, "stages"))]
        return [record for name in names if (record := self.find_record(name)) is not None]

    def finish(self, record: StageRecord) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.fs.write_text(self._record_uri(record.stage), replace(record, finished_at=now).to_json())

    def forget(self, stage: str) -> None:
        """Before a stage writes again: what it had written is no longer valid."""
        self.fs.delete(self._record_uri(stage))

    def input_keys(self, names: Iterable[str]) -> dict[str, str]:
        """By table or folder: the key of the stage that wrote it, "absent" if none did."""
        keys = {name: record.key for record in self.records() for name in record.writes}
        return {name: keys.get(name, "absent") for name in names}

    def key_of_input(self, name: str) -> str:
        """Key of the stage that wrote a table or folder."""
        return self.input_keys([name])[name]

    def _record_uri(self, stage: str) -> str:
        return joined(self.uri, "stages", f"{stage}.json")
