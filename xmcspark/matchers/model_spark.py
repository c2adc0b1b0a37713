"""The trained model as the tasks of a job see it: its folder on their machine, opened once per worker process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from xmcspark.errors import StoreError
from xmcspark.matchers.members import Members
from xmcspark.matchers.routed import SplitModel
from xmcspark.matchers.scoring import Scoring
from xmcspark.store.arrays import HEADER
from xmcspark.store.filesystem import joined
from xmcspark.store.session import task_threads
from xmcspark.store.side_files import SideFolder, send_folder
from xmcspark.store.stage import Context

MODEL = "bundle/model"


@dataclass(frozen=True)
class SentModel:
    """Where the model is and how to search it. Small: it travels with each task."""

    folder: SideFolder
    version: str
    members: int
    fusion: str
    scoring: Scoring
    beam: int
    top_k: int
    threads: int

    def opened(self) -> Members:
        """The model, mapped into memory."""
        return _members(*self._place(), self.members, self.scoring, self.fusion)

    def opened_in_parts(self) -> list[SplitModel]:
        """The model, of which only the leaves asked for will be read."""
        return _split_models(*self._place(), self.members, self.scoring)

    def _place(self) -> tuple[str, tuple[object, ...]]:
        """The folder, and what tells its contents from earlier ones there: processes outlive jobs."""
        folder = self.folder.path()
        written = (folder / str(m) / HEADER for m in range(self.members))
        return str(folder), (self.version, *(header.stat().st_mtime_ns for header in written))


@lru_cache(maxsize=1)
def _members(
    folder: str, version: tuple[object, ...], members: int, scoring: Scoring, fusion: str
) -> Members:
    return Members.load(Path(folder), members, scoring, fusion)


@lru_cache(maxsize=1)
def _split_models(
    folder: str, version: tuple[object, ...], members: int, scoring: Scoring
) -> list[SplitModel]:
    return [SplitModel(Path(folder) / str(member), scoring) for member in range(members)]


def model_bytes(context: Context) -> int:
    """Size of the model's files, once all members are known to be there."""
    uri, members = context.folder(MODEL), context.config.ensemble.members
    for member in range(members):
        if not context.fs.exists(joined(uri, str(member), HEADER)):
            raise StoreError(
                f"{joined(uri, str(member))} holds no model of member {member}: run the stage train with "
                f"ensemble.members={members}"
            )
    return sum(entry.size for entry in context.fs.walk(uri))


def send_model(context: Context) -> SentModel:
    """Makes the model of this run available to all tasks, to be searched as the configuration says."""
    predict, ensemble, spark = context.config.predict, context.config.ensemble, context.spark
    version = context.run.key_of_input(f"{MODEL}/")
    return SentModel(
        send_folder(spark, context.fs, context.folder(MODEL), version),
        version,
        ensemble.members,
        ensemble.fusion,
        Scoring(predict.transform, predict.combine),
        predict.beam,
        predict.top_k,
        threads=task_threads(spark),
    )
