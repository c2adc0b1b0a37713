"""The ways in which an encoder is fine-tuned: each knows what it reads of a job's folder, and what it leaves there
beside the encoder. A new way is a function here and its settings in the job (fine_tuning_job.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.progress import Report
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import TrainingSet
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.train import TaskReport, UnidecTraining
from xmcspark.neural.x_transformer import XFineTuning
from xmcspark.neural.xr_transformer import LevelReport, XrFineTuning, preliminary_tree

if TYPE_CHECKING:
    from xmcspark.neural.fine_tuning_job import FineTuningJob

TRAINING, LABELS = "training", "label-tokens"  # folders of a job: what it reads
STATE, HEAD, UNIDEC = "state", "head", "unidec"  # and what it leaves


@dataclass(frozen=True)
class Work:
    """What every way is given."""

    folder: Path
    job: FineTuningJob
    embedder: Embedder
    report: Report | None
    keeper: Keeper

    @property
    def how(self) -> dict[str, Any]:
        return {
            "seed": self.job.seed,
            "folder": self.folder / STATE,
            "identity": {"job": self.job.identity},
            "embedder": self.embedder,
            "threads": self.job.threads,
            "report": self.report,
            "keeper": self.keeper,
        }

    @property
    def label_tokens(self) -> TokenStore | None:
        return TokenStore.open(self.folder / LABELS) if (self.folder / LABELS).exists() else None


@dataclass(frozen=True)
class Outcome:
    """The fine-tuned encoder, how that went, and what else is to be written (by one process alone)."""

    encoder: TextEncoder
    history: dict[str, Any]  # JSON values
    save: Callable[[], None] = lambda: None


def fine_tuned(work: Work, encoder: TextEncoder) -> Outcome:
    """In the way that the job has enabled."""
    if work.job.unidec.enabled:
        return _unidec(work, encoder)
    if work.job.x_transformer.enabled:
        return _x_transformer(work, encoder)
    return _xr_transformer(work, encoder)


def _xr_transformer(work: Work, encoder: TextEncoder) -> Outcome:
    job = work.job
    if not job.encoder.epochs:
        return Outcome(encoder, {"levels": []})
    data = TrainingSet.load(work.folder / TRAINING)
    held_out = data.held_out(job.encoder.validation, job.seed)
    tree = preliminary_tree(data, job.xr_transformer, seed=job.seed, threads=job.threads, held_out=held_out)
    tuning = XrFineTuning(data, tree, job.encoder, job.xr_transformer, train=job.train, **work.how)
    encoder, levels = tuning.run(encoder)
    return Outcome(encoder, {"levels": [_of_level(level) for level in levels]})


def _x_transformer(work: Work, encoder: TextEncoder) -> Outcome:
    job, data = work.job, TrainingSet.load(work.folder / TRAINING)
    tuning = XFineTuning(
        data, job.encoder, job.x_transformer, labels=work.label_tokens, train=job.train, **work.how
    )
    encoder, head, levels = tuning.run(encoder)

    def save() -> None:
        head.tree.save(work.folder / HEAD / "tree")
        head.model(data.X.shape[1] + encoder.width).save(work.folder / HEAD / "matcher")

    return Outcome(encoder, {"levels": [_of_level(level) for level in levels]}, save)


def _unidec(work: Work, encoder: TextEncoder) -> Outcome:
    job = work.job
    data = UnidecData.load(work.folder / TRAINING, work.label_tokens)
    held_out = data.held_out(job.encoder.validation, job.seed)
    training = UnidecTraining(data, job.encoder, job.unidec, held_out=held_out, **work.how)
    model, reports = training.run(encoder)
    history = {"tasks": [_of_task(report) for report in reports], "warnings": training.warnings}
    return Outcome(model.encoder, history, lambda: model.save_heads(work.folder / UNIDEC))


def _of_level(level: LevelReport) -> dict[str, Any]:
    return {"level": level.level, "outputs": level.outputs, **asdict(level.tuned)}


def _of_task(report: TaskReport) -> dict[str, Any]:
    pools = {
        head: {"labels": sizes.average_labels, "positives": sizes.average_positives}
        for head, sizes in report.pools.items()
    }
    return {"task": report.task, "pools": pools, **asdict(report.tuned)}
