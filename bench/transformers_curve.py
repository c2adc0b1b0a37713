"""Quality against seconds while an encoder is fine-tuned: which moments are kept of it, and the model that each of them
would have made. Moments are the ends of levels, and within X-Transformer's one level the quarters of its steps.

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
_QUARTERS = 4


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
    """Keeps moments while training goes on: `seen` is what fine-tuning reports to. Seconds go on from those of an
    attempt that was stopped."""

    def __init__(self, work: Path, kept: Path, quarters: bool) -> None:
        self._work, self._kept, self._quarters = work, kept, quarters
        self._clock = kept / "seconds.json"
        before = json.loads(self._clock.read_text()) if self._clock.exists() else {"spent": 0.0, "places": {}}
        self._spent, self._places = float(before["spent"]), dict(before["places"])
        self._began, self._began_at = time.perf_counter(), time.time()
        self._copying = 0.0

    def seen(self, progress: Progress) -> None:
        """Looks for what was written since, and keeps the first checkpoint of each quarter."""
        started = time.perf_counter()
        for place in sorted(self._work.glob(f"{STATE}/**/checkpoints/*/*")):
            name = str(place.relative_to(self._work))
            if place.name.startswith(".") or name in self._places or not (place / _WRITTEN).exists():
                continue
            self._places[name] = self._seconds_at(place)
            if place.name.startswith("step-") and self._quarters and self._begins_quarter(place, progress):
                shutil.copytree(place, self._kept / name)
        self._copying += time.perf_counter() - started
        self._keep_clock()

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
        since = (place / _WRITTEN).stat().st_mtime - self._began_at
        return self._spent + max(since - self._copying, 0.0)

    def _begins_quarter(self, place: Path, progress: Progress) -> bool:
        """Whether no checkpoint of its quarter was kept before; the last one is the end of the level."""
        quarter = _quarter(place, progress.steps)
        beside = self._kept / place.parent.relative_to(self._work)
        kept = {_quarter(other, progress.steps) for other in beside.glob("step-*")}
        return 0 < quarter < _QUARTERS and quarter not in kept

    def _keep_clock(self) -> None:
        now = self._spent + time.perf_counter() - self._began - self._copying
        self._kept.mkdir(parents=True, exist_ok=True)
        partial = self._clock.with_suffix(".partial")
        partial.write_text(json.dumps({"spent": now, "places": self._places}))
        partial.replace(self._clock)


def _quarter(place: Path, steps: int) -> int:
    return _QUARTERS * int(place.name.removeprefix("step-")) // max(steps, 1)


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


def curve(
    moments: list[Moment],
    folder_of: Callable[[Moment], Path],
    ranked: Callable[[Path], TextModel],
    quality: Callable[[TextModel], list[float]],
) -> list[dict[str, Any]]:
    """Of each moment: seconds of fine-tuning, those with the ranking that makes a model of it, and its P@1."""
    points = []
    for moment in moments:
        folder = folder_of(moment)
        started = time.perf_counter()
        model = ranked(folder)
        ranking = time.perf_counter() - started
        points.append(
            {
                "moment": moment.name,
                "fine_tuning_s": moment.seconds,
                "seconds": moment.seconds + ranking,
                "P@1": quality(model),
            }
        )
        shutil.rmtree(folder)
    return points
