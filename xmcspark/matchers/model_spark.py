"""The trained model as the tasks of a job see it: its folder on their machine, opened once per worker process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from xmcspark.config.configuration import Config
from xmcspark.errors import StoreError
from xmcspark.mach.model import LABELS
from xmcspark.matchers.members import NEAREST, SKETCH, Members, MemberSettings
from xmcspark.matchers.routed import SplitModel
from xmcspark.matchers.scoring import Scoring
from xmcspark.store.arrays import HEADER
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import Run
from xmcspark.store.session import task_threads
from xmcspark.store.side_files import SideFolder, send_folder
from xmcspark.store.stage import Context

MODEL = "bundle/model"
SKETCH_FILE, _NEAREST_FILE = f"{SKETCH}/{LABELS}/{HEADER}", f"{NEAREST}/search.json"  # written last, of each


@dataclass(frozen=True)
class SentModel:
    """Where the model is and how to search it. Small: it travels with each task."""

    folder: SideFolder
    version: str
    members: MemberSettings
    beam: int
    top_k: int
    threads: int

    def opened(self) -> Members:
        """The model, mapped into memory."""
        return _members(*self._place(), self.members)

    def opened_in_parts(self) -> list[SplitModel]:
        """The model, of which only the leaves asked for will be read."""
        return _split_models(*self._place(), self.members.trees, self.members.scoring)

    @property
    def fusion(self) -> str:
        return self.members.fusion

    def settings(self) -> dict[str, Any]:
        """How it is asked, as a bundle's manifest has it."""
        return {**self.members.to_plain(), "beam": self.beam, "top_k": self.top_k}

    def _place(self) -> tuple[str, tuple[object, ...]]:
        """The folder, and what tells its contents from earlier ones there: processes outlive jobs."""
        folder = self.folder.path()
        parts = [str(member) for member in range(self.members.trees)]
        files = [f"{part}/{HEADER}" for part in parts]
        if self.members.mach is not None:
            files.append(SKETCH_FILE)
        if self.members.unidec is not None:
            files.append(_NEAREST_FILE)
        written = (folder / file for file in files)
        return str(folder), (self.version, *(file.stat().st_mtime_ns for file in written))


@lru_cache(maxsize=1)
def _members(folder: str, version: tuple[object, ...], settings: MemberSettings) -> Members:
    return Members.load(Path(folder), settings)


@lru_cache(maxsize=1)
def _split_models(
    folder: str, version: tuple[object, ...], members: int, scoring: Scoring
) -> list[SplitModel]:
    return [SplitModel(Path(folder) / str(member), scoring) for member in range(members)]


def member_settings(config: Config, run: Run) -> MemberSettings:
    """The members that a configuration trains in a run, asked as it says."""
    return MemberSettings(
        config.ensemble.members,
        config.ensemble.fusion,
        config.predict.scoring,
        config.mach if config.mach.enabled else None,
        run.key_of_input("encode/") if config.unidec.enabled else None,
    )


def model_bytes(context: Context) -> int:
    """Size of the model's files, once all members are known to be there."""
    uri, members = context.folder(MODEL), context.config.ensemble.members
    for member in range(members):
        if not context.fs.exists(joined(uri, str(member), HEADER)):
            raise StoreError(
                f"{joined(uri, str(member))} holds no model of member {member}: run the stage train with "
                f"ensemble.members={members}"
            )
    if context.config.mach.enabled and not context.fs.exists(joined(uri, SKETCH_FILE)):
        raise StoreError(f"{joined(uri, SKETCH)} holds no sketch: run the stage train with mach.enabled=true")
    if context.config.unidec.enabled and not context.fs.exists(joined(uri, _NEAREST_FILE)):
        raise StoreError(
            f"{joined(uri, NEAREST)} holds no vectors of labels: run the stage train with unidec.enabled=true"
        )
    return sum(entry.size for entry in context.fs.walk(uri))


def send_model(context: Context) -> SentModel:
    """Makes the model of this run available to all tasks, to be searched as the configuration says."""
    predict, spark = context.config.predict, context.spark
    version = context.run.key_of_input(f"{MODEL}/")
    return SentModel(
        send_folder(spark, context.fs, context.folder(MODEL), version),
        version,
        member_settings(context.config, context.run),
        predict.beam,
        predict.top_k,
        threads=task_threads(spark),
    )
