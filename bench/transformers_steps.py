"""What one process of bench.transformers does: trains one model on a dataset, or on a part of it, and predicts the test
split. Decides what is measured: wall seconds of each part with the threads given, peak memory, quality with intervals.

    .venv/bin/python -m bench.transformers_steps JSON"""

from __future__ import annotations

import datetime
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import inputs
from bench.augmentation import Task, task_of
from bench.spent_seconds import SpentSeconds
from xmcspark.config.configuration import Config, from_mapping
from xmcspark.labels.augmented_training import (
    Instances,
    Learner,
    label_instances,
    no_instances,
    trained_on,
    vectorizer_of,
)
from xmcspark.labels.draws import streams
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.peak_memory import PeakMemory
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.rows import stacked_rows

if TYPE_CHECKING:
    from bench.transformers_curve import Moments, Outcome
    from xmcspark.neural.progress import Progress, Report
    from xmcspark.neural.text_model import TextModel, TextModelSettings

TOP_K = 10
_KS = (1, 3, 5, 10)
_METRICS = ("P", "PSP", "R", "nDCG")


@dataclass(frozen=True)
class Asked:
    """A row of the tables."""

    name: str
    method: str = "xr-transformer"
    changes: dict[str, Any] = field(default_factory=dict)  # of the configuration, by dotted key
    seed: int = 0
    gandalf: bool = False
    rows: int = 0  # a subset of the training rows, the same for all; 0: all
    curve: bool = False  # whether quality at moments on the way is wanted
    tuned_by: str = (
        ""  # another row, of the same seed, whose fine-tuned encoder it ranks with: only rankers differ
    )

    zero_shot: bool = (
        False  # of UniDEC: whether all labels are searched by their texts, too, the untrained ones
    )

    @property
    def label(self) -> str:
        return f"{self.name}, seed {self.seed}"


WORK = "work"  # in the folder of a row: what fine-tuning leaves
_CLOCK = "clock.json"  # and what it took so far


def learn(
    asked: Asked,
    data: str,
    encoder: str,
    folder: Path,
    threads: int,
    *,
    tuned: Path | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Trains and predicts; predictions stay in the folder, for comparisons. What moments on the way would have come to
    is found out afterwards, and counts for nothing. `tuned`: the folder of the row `asked.tuned_by`; `keep`: whether
    this one is such a row."""
    task = part_of(task_of(inputs.load(data, None, 0)[1]), asked.rows)
    config = configuration(asked, encoder)
    observed, made = instances_of(task, config, asked.gandalf, threads)
    spent, peak = SpentSeconds(folder / _CLOCK), PeakMemory()
    trained = None
    if config.unidec.enabled:
        found, facts = _unidec(asked, task, config, (observed, made), folder, spent, threads)
    elif config.encoder.enabled:
        work = _Work((tuned or folder) / WORK, folder / "moments" if asked.curve else None, tuned is not None)
        trained = _neural(task, config, (observed, made), work, spent, threads)
        found, facts = trained.found, trained.facts
    else:
        found, facts = _linear(task, config, observed, made, threads), {}
    shared = sum(float(level["seconds"]) for level in facts["levels"]) if tuned is not None else 0.0
    facts |= {"seconds": spent.now() + shared, "peak_mb": peak.bytes() / 1e6}
    if trained is not None and trained.moments is not None:
        from bench.transformers_curve import Outcome

        outcome = Outcome(facts["train_s"], measured(found, task)["P@1"])
        facts["curve"] = _curve(trained, outcome, task, config, folder, threads)
    for name in ("moments",) if keep else (WORK, "moments"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / _CLOCK).unlink(missing_ok=True)
    np.savez(folder / "predictions.npz", labels=found.labels, scores=found.scores)
    today = datetime.date.today().isoformat()
    return {"asked": asdict(asked), "date": today, "metrics": measured(found, task), **facts}


@dataclass(frozen=True)
class _Work:
    """Where an encoder is fine-tuned."""

    folder: Path
    moments: Path | None  # where moments on the way are kept, if they are wanted
    finished: bool  # whether another row has done it


@dataclass(frozen=True)
class _Trained:
    """A model with an encoder, and what it answered."""

    model: TextModel
    settings: TextModelSettings
    moments: Moments | None
    found: Predictions
    facts: dict[str, Any]


def configuration(asked: Asked, encoder: str) -> Config:
    overrides = list({"seed": asked.seed, **asked.changes}.items())
    if asked.method == "unidec" or asked.method.endswith("transformer"):
        overrides.append(("encoder.model", encoder))
    return from_mapping({"method": asked.method}, overrides)


def part_of(task: Task, rows: int) -> Task:
    """So many training rows, chosen by hash; evaluated on labels that they have, as on all others."""
    if not rows or rows >= len(task.observed.keys):
        return task
    drawn = streams(1, "rows of a subset", task.observed.keys)
    chosen = np.sort(np.argsort(drawn, kind="stable")[:rows])
    return replace(task, observed=task.observed.take(chosen))


def instances_of(task: Task, config: Config, gandalf: bool, threads: int) -> tuple[Instances, Instances]:
    made = no_instances(task.truth.shape[1])
    if gandalf:
        made = label_instances(
            task.observed, task.label_texts, task.named, config.augment, config.seed, threads
        )
    return trained_on(task.observed, made, config.augment, config.seed)


def _linear(task: Task, config: Config, observed: Instances, made: Instances, threads: int) -> Predictions:
    return Learner(config, task.texts, task.excluded, TOP_K, threads).predictions(observed, made)


def _unidec(
    asked: Asked,
    task: Task,
    config: Config,
    instances: tuple[Instances, Instances],
    folder: Path,
    spent: SpentSeconds,
    threads: int,
) -> tuple[Predictions, dict[str, Any]]:
    from bench.unidec_steps import learned

    how = {
        "spent": spent,
        "threads": threads,
        "report": _told(spent),
        "top_k": TOP_K,
        "unseen": asked.zero_shot,
    }
    return learned(task, config, instances, folder, judge=lambda found: measured(found, task), **how)


def _neural(
    task: Task,
    config: Config,
    instances: tuple[Instances, Instances],
    work: _Work,
    spent: SpentSeconds,
    threads: int,
) -> _Trained:
    from bench.transformers_curve import Moments
    from xmcspark.neural.fine_tuning_ways import TRAINING
    from xmcspark.neural.text_model import TextModelSettings, ranked, train_text_model
    from xmcspark.neural.training_set import TrainingSet

    settings = TextModelSettings.of(config)
    observed, made = instances
    weights = is_made = None
    if len(made.keys):
        is_made = np.arange(len(observed.keys) + len(made.keys)) >= len(observed.keys)
        weights = np.where(is_made[:, None], np.array(config.augment.weights, np.float32), np.float32(1))
    tfidf, moments = vectorizer_of(config.text, threads).fit(observed.texts), None
    if work.moments is not None:
        moments = Moments(work.folder, work.moments, spent, config.x_transformer.enabled)
    if work.finished:
        data = TrainingSet.load(work.folder / TRAINING)
        model = ranked(data, tfidf, settings, work.folder, seed=config.seed, threads=threads)
    else:
        model = train_text_model(
            [*observed.texts, *made.texts],
            stacked_rows([observed.Y, made.Y]).to_scipy(),
            settings,
            folder=work.folder,
            tfidf=tfidf,
            label_texts=[text or "" for text in task.label_texts],
            row_keys=np.concatenate([observed.keys, made.keys]),
            row_weights=weights,
            made=is_made,
            silent=None if config.augment.in_pifa else is_made,
            seed=config.seed,
            threads=threads,
            report=_told(spent, moments),
        )
    trained = spent.now()
    found, seconds = _predicted(model, task, config, threads)
    history = json.loads((work.folder / "history.json").read_text())
    tuning = sum(float(level["seconds"]) for level in history["levels"]) if work.finished else 0.0
    facts = {
        "train_s": trained + tuning,
        **seconds,
        "levels": history["levels"],
        "weights": model.model.n_weights,
    }
    return _Trained(model, settings, moments, found, facts)


def _told(spent: SpentSeconds, moments: Moments | None = None) -> Report:
    """What hears of progress: the terminal, what keeps moments, and the clock."""

    def told(progress: Progress) -> None:
        print(progress, file=sys.stderr, flush=True)
        if moments is not None:
            moments.seen(progress)
        spent.keep()

    return told


def _predicted(
    model: TextModel, task: Task, config: Config, threads: int
) -> tuple[Predictions, dict[str, float]]:
    """The test rows, and how long embedding and search took."""
    started = time.perf_counter()
    X = model.rows(list(task.texts))
    embedded = time.perf_counter()
    how = {"beam": config.predict.beam, "top_k": TOP_K, "threads": threads}
    found = search_without(model.model.searcher, X, task.excluded, **how)
    return found, {"embed_s": embedded - started, "search_s": time.perf_counter() - embedded}


def _curve(
    trained: _Trained, outcome: Outcome, task: Task, config: Config, folder: Path, threads: int
) -> list[dict[str, Any]]:
    from bench.transformers_curve import curve, model_folder_of
    from xmcspark.neural.fine_tuning_ways import TRAINING
    from xmcspark.neural.text_model import ranked
    from xmcspark.neural.training_set import TrainingSet

    work, tfidf, how = folder / WORK, trained.model.tfidf, {"seed": config.seed, "threads": threads}
    data = TrainingSet.load(work / TRAINING)
    assert trained.moments is not None
    return curve(
        trained.moments.all(),
        outcome,
        lambda moment: model_folder_of(moment, work, folder / "moment", data),
        lambda place: ranked(data, tfidf, trained.settings, place, **how),
        lambda model: measured(_predicted(model, task, config, threads)[0], task)["P@1"],
    )


def measured(found: Predictions, task: Task) -> dict[str, list[float]]:
    """Value and 95% interval of each metric."""
    profile = LabelProfile.from_training(task.observed.Y)
    rows = evaluate(found, task.truth, profile, ks=_KS, metrics=_METRICS)
    return {f"{row.metric}@{row.k}": [row.value, row.low, row.high] for row in rows if row.bin == "all"}


def main(arguments: list[str]) -> int:
    order = json.loads(arguments[0])
    folder = Path(order["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    asked = Asked(**order["asked"])
    tuned = order.get("tuned")
    found = learn(
        asked,
        order["data"],
        order["encoder"],
        folder,
        int(order["threads"]),
        tuned=None if tuned is None else Path(tuned),
        keep=bool(order.get("keep")),
    )
    (folder / "facts.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
