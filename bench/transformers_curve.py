"""Quality against seconds while an encoder is fine-tuned: which moments are kept of it, and the model that each of them
would have made. Moments are the ends of levels, and within X-Transformer's one level the thirds of its steps.

Moments are copies of checkpoints that fine-tuning writes anyway; the copying is not counted."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.spent_seconds import SpentSeconds
from xmcspark.matchers.model import Matchers
from xmcspark.neural.checkpoint import Checkpoint, State
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tuning_job import ENCODER, PRETRAINED
from xmcspark.neural.fine_tuning_ways import HEAD, STATE
from xmcspark.neural.optimizer import module_tensors
from xmcspark.neural.progress import Progress
from xmcspark.neural.text_model import TextModel
from xmcspark.neural.training_set import TrainingSet, embeddings_alone
from xmcspark.neural.x_transformer import ClusterMatcher
from xmcspark.tree.label_tree import LabelTree

_WRITTEN = "checkpoint.json"  # the last file of a checkpoint
_THIRDS = 3


@dataclass(frozen=True)
class Moment:
    """An encoder on its way."""

    place: Path  # a checkpoint: STATE/[round-N/]checkpoints/level-K/(step-S | finished)
    seconds: float  # of training so far

    @property
    def name(self) -> str:
        of_round = [part for part in self.place.parts if part.startswith("round-")]
        step = json.loads((self.place / _WRITTEN).read_text())["step"]
        return ", ".join([*of_round, self.place.parent.name, f"step {step}"]).replace("-", " ")


class Moments:
    """Keeps moments while training goes on: `seen` is what fine-tuning reports to, `spent` what counts its seconds."""

    def __init__(self, work: Path, kept: Path, spent: SpentSeconds, thirds: bool) -> None:
        self._work, self._kept, self._spent, self._thirds = work, kept, spent, thirds
        self._places_file = kept / "seconds.json"
        known = self._places_file.exists()
        self._places: dict[str, float] = json.loads(self._places_file.read_text()) if known else {}

    def seen(self, progress: Progress) -> None:
        """Looks for what was written since, and keeps the first checkpoint of each third."""
        started = time.perf_counter()
        for place in sorted(self._work.glob(f"{STATE}/**/checkpoints/*/*")):
            name = str(place.relative_to(self._work))
            if place.name.startswith(".") or name in self._places or not (place / _WRITTEN).exists():
                continue
            self._places[name] = self._seconds_at(place)
            if place.name.startswith("step-") and self._thirds and self._begins_third(place, progress):
                shutil.copytree(place, self._kept / name)
        self._spent.leave_out(time.perf_counter() - started)
        self._kept.mkdir(parents=True, exist_ok=True)
        self._places_file.write_text(json.dumps(self._places))

    def all(self) -> list[Moment]:
        """In the order in which they came; what is finished lies in the folder of work still."""
        for place in self._work.glob(f"{STATE}/**/checkpoints/*/finished"):
            self._places.setdefault(str(place.relative_to(self._work)), self._seconds_at(place))
        found = []
        for name, seconds in self._places.items():
            home = self._work if name.endswith("finished") else self._kept
            if (home / name / _WRITTEN).exists():
                found.append(Moment(home / name, seconds))
        return sorted(found, key=lambda moment: moment.seconds)

    def _seconds_at(self, place: Path) -> float:
        since = time.time() - (place / _WRITTEN).stat().st_mtime
        return self._spent.now() - since

    def _begins_third(self, place: Path, progress: Progress) -> bool:
        """Whether no checkpoint of its third was kept before; the last one is the end of the level."""
        third = _third(place, progress.steps)
        beside = self._kept / place.parent.relative_to(self._work)
        kept = {_third(other, progress.steps) for other in beside.glob("step-*")}
        return 0 < third < _THIRDS and third not in kept


def _third(place: Path, steps: int) -> int:
    return _THIRDS * int(place.name.removeprefix("step-")) // max(steps, 1)


def model_folder_of(moment: Moment, work: Path, into: Path, data: TrainingSet) -> Path:
    """A folder such as fine-tuning leaves, as it would be had it ended then."""
    shutil.rmtree(into, ignore_errors=True)
    encoder = TextEncoder.load(work / PRETRAINED)
    Checkpoint(moment.place, 0, True, {}).read_into(State({"encoder": module_tensors(encoder)}, ()))
    encoder.save(into / ENCODER)
    if (work / HEAD).exists():  # X-Transformer's, whose clusters are those of the round
        of_round = next(part for part in moment.place.parts if part.startswith("round-"))
        tree = LabelTree.load(work / STATE / of_round / "clusters")
        head = [np.load(moment.place / "table-0" / f"{name}.npy") for name in ("weights", "bias")]
        matcher = ClusterMatcher(tree, Matchers(embeddings_alone(head[0]), head[1]))
        tree.save(into / HEAD / "tree")
        matcher.model(data.X.shape[1] + encoder.width).save(into / HEAD / "matcher")
    return into


@dataclass(frozen=True)
class Outcome:
    """What training came to in the end."""

    seconds: float  # with the ranking that made a model of it
    quality: list[float]  # P@1 with its interval


def curve(
    moments: list[Moment],
    outcome: Outcome,
    folder_of: Callable[[Moment], Path],
    ranked: Callable[[Path], TextModel],
    quality: Callable[[TextModel], list[float]],
) -> list[dict[str, Any]]:
    """Of each moment: seconds of fine-tuning, those with the ranking that makes a model of it, and its P@1. The last
    one is what became the model, so its outcome is known."""
    points = []
    for moment in moments[:-1]:
        folder = folder_of(moment)
        started = time.perf_counter()
        model = ranked(folder)
        ranking = time.perf_counter() - started
        points.append(_point(moment, Outcome(moment.seconds + ranking, quality(model))))
        shutil.rmtree(folder)
    return [*points, _point(moments[-1], outcome)]


def _point(moment: Moment, outcome: Outcome) -> dict[str, Any]:
    return {
        "moment": moment.name,
        "fine_tuning_s": moment.seconds,
        "seconds": outcome.seconds,
        "P@1": outcome.quality,
    }
