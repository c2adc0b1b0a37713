"""The training loop of the torch stage. What is trained on is a Task; when it is checked, when it stops, what is kept
and how a killed run goes on is decided here, and what a step is in training_step.py.

A step is a function of its number, the seed and the weights: a run resumed from a checkpoint is, on the CPU and with
one process, bit for bit the run that was not killed."""

from __future__ import annotations

import logging
import tempfile
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from xmcspark.errors import StoreError
from xmcspark.neural.checkpoint import Checkpoint, Checkpoints
from xmcspark.neural.device import Device, chosen_device
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.processes import ONE_PROCESS, Processes
from xmcspark.neural.progress import Meter, Report
from xmcspark.neural.schedule import Rates
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.task import Task
from xmcspark.neural.training_step import OPTIMIZER, TrainingStep

__all__ = ["FineTuned", "Report", "Task", "fine_tune", "finished_before"]

log = logging.getLogger(__name__)

ORDINARY_RATES = Rates()
_RECENT = 50  # steps whose mean loss stands for the end
_FIRST = 10  # steps whose mean loss stands for the start
# Settings that change what a step does. Those that only cut it otherwise (batch_size, accumulate, processes) are in the
# identity as the instances of a step: a run that did not fit into memory may go on with smaller passes.
_DECISIVE = (
    *("learning_rate", "head_learning_rate", "weight_decay", "warmup", "clip", "precision"),
    *("evaluate_every", "patience", "train_words"),
)


@dataclass(frozen=True)
class FineTuned:
    """What became of a task."""

    steps: int  # done, those of earlier runs included
    first_loss: float | None  # mean over the first steps; None if there were none
    loss: float | None  # mean over the last steps; None if there were none
    validation: float | None  # of the weights kept
    kept_step: int  # whose weights were kept: the last, or with patience the best
    evaluations: tuple[tuple[int, float], ...]  # (step, validation)
    seconds: float  # of all runs, up to their last checkpoints
    resumed_at: int | None  # step of the checkpoint it went on from

    @staticmethod
    def of(step: int, facts: Mapping[str, Any], patience: int, resumed_at: int | None) -> FineTuned:
        """By what a checkpoint says."""
        evaluations = tuple((int(at), float(value)) for at, value in facts["evaluations"])
        kept = _best_step(evaluations, step) if patience else step
        return FineTuned(
            steps=step,
            first_loss=_mean(facts.get("first_losses", ())),  # not in those of older releases, as seconds
            loss=_mean(facts["losses"]),
            validation=dict(evaluations).get(kept),
            kept_step=kept,
            evaluations=evaluations,
            seconds=float(facts.get("seconds", 0.0)),
            resumed_at=resumed_at,
        )


def fine_tune(
    encoder: TextEncoder,
    task: Task,
    settings: EncoderSettings,
    *,
    seed: int,
    device: Device | None = None,
    processes: Processes = ONE_PROCESS,
    checkpoints: Checkpoints | None = None,
    keeper: Keeper | None = None,
    rates: Rates = ORDINARY_RATES,
    report: Report | None = None,
) -> FineTuned:
    """Trains the encoder, the task's modules and its tables, in place. With checkpoints, goes on from the newest one
    of this task; a task that was finished is only loaded, so a run of several tasks resumes by being started again.
    Only the first process needs to see the folder of the checkpoints, and its `keeper` is told of each. `device` None:
    by settings."""
    device = device or chosen_device(settings, processes.local_rank)
    log.info(
        "%s: %d steps on %s, process %d of %d", task.name, task.steps, device.described, *_place(processes)
    )
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        if checkpoints is not None:
            checkpoints = checkpoints.of(**_identity(encoder, task, settings, rates, seed))
        elif settings.patience:  # the best weights have to be kept somewhere
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="xmcspark-best-"))
            checkpoints = Checkpoints(Path(folder), {})
        step = TrainingStep(encoder, task, settings, rates, seed=seed, device=device, processes=processes)
        keeper = keeper or Keeper()
        return _Loop(encoder, task, settings, step, processes, checkpoints, keeper, report).run()


class _Loop:
    """A task on its way: steps done, checks made, the best of them."""

    def __init__(
        self,
        encoder: TextEncoder,
        task: Task,
        settings: EncoderSettings,
        training: TrainingStep,
        processes: Processes,
        checkpoints: Checkpoints | None,
        keeper: Keeper,
        report: Report | None,
    ) -> None:
        self._encoder, self._task, self._settings, self._training = encoder, task, settings, training
        self._processes, self._checkpoints, self._report = processes, checkpoints, report
        self._keeper = keeper
        self._step = 0
        self._evaluations: list[tuple[int, float]] = []
        self._losses: deque[float] = deque(maxlen=_RECENT)
        self._first_losses: list[float] = []
        self._written, self._written_at = (
            0,
            time.monotonic(),
        )  # step of the newest checkpoint, and when it was
        self._seconds, self._began = 0.0, time.monotonic()  # of earlier runs, and when this one began

    def run(self) -> FineTuned:
        found = self._resumed()
        if found is None or not found.finished:
            self._train()
            self._finish()
        self._encoder.eval()
        facts = self._facts() if found is None or not found.finished else found.facts
        return FineTuned.of(self._step, facts, self._settings.patience, None if found is None else found.step)

    def _train(self) -> None:
        """Steps until there are none left, or checks bring nothing more."""
        steps, settings = self._task.steps, self._settings
        meter = Meter(self._task.name, steps, self._report, quiet=self._processes.rank > 0)
        self._set_mode(training=True)
        while self._step < steps and not self._gains_nothing():
            loss, texts = self._training.make(self._step)
            self._step += 1
            self._losses.append(loss)
            if self._step <= _FIRST:
                self._first_losses.append(loss)
            meter.step_done(self._step, loss, texts)
            if settings.evaluate_every and self._step % settings.evaluate_every == 0:
                self._evaluate()
            if self._is_due():
                self._write()
        if not self._evaluations or self._evaluations[-1][0] != self._step:
            self._evaluate()
        self._set_mode(training=False)

    def _is_due(self) -> bool:
        """Whether a checkpoint is: in all processes or in none, though their clocks differ."""
        minutes = (time.monotonic() - self._written_at) / 60
        late = bool(self._processes.broadcast(minutes >= self._settings.checkpoint_minutes))
        return late or self._step - self._written >= self._settings.checkpoint_every

    def _evaluate(self) -> None:
        self._set_mode(training=False)
        with torch.no_grad():
            value = self._processes.broadcast(self._task.validate(self._encoder))
        self._set_mode(training=True)
        if value is None:
            return
        self._evaluations.append((self._step, float(value)))
        log.info("%s: validation %.4f after %d steps", self._task.name, value, self._step)
        if self._settings.patience and self._best_step() == self._step:
            self._write()

    def _best_step(self) -> int:
        return _best_step(self._evaluations, self._step)

    def _gains_nothing(self) -> bool:
        after = [step for step, _ in self._evaluations if step > self._best_step()]
        return 0 < self._settings.patience <= len(after)

    def _set_mode(self, *, training: bool) -> None:
        for part in (self._encoder, *self._task.modules):
            part.train(training)

    def _finish(self) -> None:
        """Goes back to the best weights, and leaves a checkpoint that says that the task is done."""
        best = self._best_step()
        if self._settings.patience and best != self._step:
            log.info("%s: the weights after %d of %d steps are kept", self._task.name, best, self._step)
            self._read(best)
        self._write(finished=True)

    # Checkpoints: the first process reads and writes, the others are told.

    def _resumed(self) -> Checkpoint | None:
        """Goes on where an earlier run came to, if there is something of it."""
        first = self._processes.rank == 0
        found = self._checkpoints.newest(self._task.name) if self._checkpoints is not None and first else None
        found = self._told(found)
        if found is None:
            return None
        self._restore(found, with_optimizer=not found.finished)
        facts = found.facts
        self._step = self._written = found.step
        self._evaluations = [(int(step), float(value)) for step, value in facts["evaluations"]]
        self._losses.extend(facts["losses"])
        self._first_losses = list(facts.get("first_losses", []))
        self._seconds = float(facts.get("seconds", 0.0))
        self._training.loss_scale.scale, self._training.loss_scale.good_steps = facts["loss_scale"]
        done = (
            "finished before" if found.finished else f"going on after step {found.step} of {self._task.steps}"
        )
        log.info("%s: %s", self._task.name, done)
        return found

    def _read(self, step: int) -> None:
        """The weights after a step that a checkpoint was kept of."""
        first = self._processes.rank == 0
        found = (
            self._checkpoints.at(self._task.name, step) if self._checkpoints is not None and first else None
        )
        found = self._told(found)
        if found is None:
            raise StoreError(
                f"{self._task.name}: the checkpoint after step {step}, whose weights were best, is gone or damaged: "
                "remove the checkpoints of this task and train it again"
            )
        self._restore(found, with_optimizer=False)

    def _told(self, found: Checkpoint | None) -> Checkpoint | None:
        known: Checkpoint | None = self._processes.broadcast(found)
        return known

    def _restore(self, found: Checkpoint, *, with_optimizer: bool) -> None:
        state = self._training.state
        if not with_optimizer:
            state = state.only(*(name for name in state.tensors if name != OPTIMIZER))
        if self._processes.rank == 0:
            found.read_into(state)
        if self._processes.world > 1:
            self._processes.broadcast_tensors([t for part in state.tensors.values() for t in part.values()])
            for table in state.tables:
                table.broadcast(self._processes)

    def _write(self, *, finished: bool = False) -> None:
        """A checkpoint of now; older ones go, but for that of the best step."""
        if self._checkpoints is None or (self._written == self._step and self._step and not finished):
            return
        self._written, self._written_at = self._step, time.monotonic()
        best = [self._best_step()] if self._settings.patience else []
        kept = [] if finished else [self._step, *best]
        if self._processes.rank == 0:
            state = self._training.state
            if finished:
                state = state.only(*(name for name in state.tensors if name != OPTIMIZER))
            name = self._task.name
            self._checkpoints.write(name, self._step, state, self._facts(), finished=finished)
            self._checkpoints.keep_only(name, *kept)
            self._keeper.keep_if_due()
        self._processes.barrier()
        self._task.checkpointed(min(kept, default=self._step))

    def _facts(self) -> Mapping[str, Any]:
        scale = self._training.loss_scale
        return {
            "evaluations": self._evaluations,
            "losses": list(self._losses),
            "first_losses": self._first_losses,
            "loss_scale": [scale.scale, scale.good_steps],
            "seconds": self._seconds + time.monotonic() - self._began,
        }


def finished_before(checkpoints: Checkpoints, task: str, settings: EncoderSettings) -> FineTuned | None:
    """What became of a task that an earlier run finished, without loading it; None if that is not known."""
    found = checkpoints.finished(task)
    return None if found is None else FineTuned.of(found.step, found.facts, settings.patience, found.step)


def _best_step(evaluations: Sequence[tuple[int, float]], last: int) -> int:
    """The earliest of the best; the last step if nothing was checked."""
    return max(evaluations, key=lambda found: found[1], default=(last, 0.0))[0]


def _mean(losses: Collection[float]) -> float | None:
    return sum(losses) / len(losses) if losses else None


def _identity(
    encoder: TextEncoder, task: Task, settings: EncoderSettings, rates: Rates, seed: int
) -> dict[str, Any]:
    """What a checkpoint of this task must have in common with what is trained now."""
    return {
        **{f"encoder.{name}": getattr(settings, name) for name in _DECISIVE},
        "instances of a step": task.step_rows,
        "steps": task.steps,
        "seed": seed,
        "rates": [rates.modules and list(rates.modules), rates.tables and list(rates.tables), rates.schedule],
        "tables": [[table.rows, table.width, table.decay] for table in task.tables],
        "encoder before": encoder.identity(),
    }


def _place(processes: Processes) -> tuple[int, int]:
    return processes.rank + 1, processes.world
