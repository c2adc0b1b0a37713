"""One step of fine-tuning: the batch cut among processes and forward passes, the gradients of all added up, clipped and
applied to encoder, modules and tables. A function of the step's number, the seed and the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams
from xmcspark.neural.checkpoint import State
from xmcspark.neural.device import Device
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.memory import advice_about_memory
from xmcspark.neural.optimizer import (
    LossScale,
    clipping,
    gradient_norm,
    make_optimizer,
    module_tensors,
    scale_gradients,
    set_rates,
    state_tensors,
    weights_of,
)
from xmcspark.neural.processes import Processes
from xmcspark.neural.schedule import Rates, share_of_rate
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.task import Task

OPTIMIZER = "optimizer"  # the file of a checkpoint that a finished task has no use for


class TrainingStep:
    """Makes steps of a task, in place. The encoder and the modules are moved to the device."""

    def __init__(
        self,
        encoder: TextEncoder,
        task: Task,
        settings: EncoderSettings,
        rates: Rates,
        *,
        seed: int,
        device: Device,
        processes: Processes,
    ) -> None:
        self._encoder, self._task, self._settings = encoder, task, settings
        self._seed, self._device, self._processes = seed, device, processes
        self._schedule = rates.schedule
        modules = list(task.modules)
        module_rates = _rates("modules", rates.modules, len(modules), settings)
        self._table_rates = _rates("tables", rates.tables, len(task.tables), settings)
        for part in (encoder, *modules):
            part.to(device.torch)
        encoder.train_words(settings.train_words)
        self._optimizer = make_optimizer(encoder, modules, module_rates, settings)
        self._weights = weights_of(self._optimizer)
        self.loss_scale = LossScale(device.precision == "fp16")
        tensors = {"encoder": module_tensors(encoder), OPTIMIZER: state_tensors(self._optimizer)}
        tensors |= {f"module-{number}": module_tensors(module) for number, module in enumerate(modules)}
        self.state = State(tensors, task.tables)

    def make(self, step: int) -> tuple[float, int]:
        """Step `step`, from 0 on: (mean loss, instances) of all processes together."""
        rows = self._task.batch(step)
        if not len(rows):
            raise InputError(f"{self._task.name}: the batch of step {step} is empty")
        with advice_about_memory(lambda: self._task.memory_advice(self._settings)):
            loss = self._backward(step, rows)
            if not math.isfinite(loss):
                raise self._diverged(f"the loss of step {step} is {loss}")
            self._apply(step)
        return loss, len(rows)

    def _diverged(self, how: str) -> InputError:
        rates = " or ".join(("encoder.learning_rate", *self._task.rate_settings))
        return InputError(
            f"{self._task.name}: {how}. Training diverged: lower {rates}, raise encoder.warmup, or set encoder.clip to "
            "1; then remove the checkpoints and start again"
        )

    def _backward(self, step: int, rows: np.ndarray) -> float:
        """Gradients of this process's share; the loss of all."""
        own = 0.0
        for number, (part, weight) in enumerate(
            shares(len(rows), self._settings.batch_size, self._processes.rank, self._processes.world)
        ):
            torch.manual_seed(self._dropout_seed(step, number))
            with self._device.autocast():
                loss = self._task.loss(self._encoder, rows[part])
            (loss * (weight * self.loss_scale.factor)).backward()  # type: ignore[no-untyped-call]
            own += float(loss.detach()) * weight
        total = torch.tensor([own], dtype=torch.float64)
        self._processes.add([total])
        return float(total)

    def _dropout_seed(self, step: int, number: int) -> int:
        """Of one forward pass: what is dropped follows from here alone, so checkpoints keep no random state."""
        stream = streams(self._seed, f"dropout of {self._task.name}", np.array([step]))
        return int(hashed(stream, number * self._processes.world + self._processes.rank)[0] >> np.uint64(1))

    def _apply(self, step: int) -> None:
        self._add_gradients()
        scale = 1 / self.loss_scale.factor
        norm = gradient_norm(self._weights) * scale
        if self.loss_scale.accepts(self._all_finite(norm)):
            if not math.isfinite(norm):
                raise self._diverged(f"the gradient of step {step} has no end")
            scale_gradients(self._weights, scale * clipping(norm, self._settings.clip))
            share = share_of_rate(step, self._task.steps, self._settings.warmup, self._schedule)
            set_rates(self._optimizer, share)
            self._optimizer.step()
            for table, rate in zip(self._task.tables, self._table_rates, strict=True):
                table.step(rate * share, self._processes, scale)
        for table in self._task.tables:
            table.forget()
        self._optimizer.zero_grad(set_to_none=True)

    def _add_gradients(self) -> None:
        """Over passes and processes. A weight that only some losses used has a gradient of zero in the others."""
        if self._processes.world == 1:
            return
        used = torch.tensor([weight.grad is not None for weight in self._weights], dtype=torch.float32)
        self._processes.add([used])
        anywhere = [weight for weight, count in zip(self._weights, used.tolist(), strict=True) if count]
        for weight in anywhere:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        self._processes.add([weight.grad for weight in anywhere if weight.grad is not None])

    def _all_finite(self, norm: float) -> bool:
        """Whether the gradients of weights and tables are numbers, in all processes: with fp16 they may overflow."""
        if not self.loss_scale.active:
            return math.isfinite(norm)
        infinite = torch.tensor([float(not table.pending_is_finite()) for table in self._task.tables] + [0.0])
        self._processes.add([infinite])
        return math.isfinite(norm) and not float(infinite.sum())


def shares(rows: int, batch_size: int, rank: int, world: int) -> list[tuple[slice, float]]:
    """The forward passes of one process: which places of the batch, and what they count for in its mean. Passes are as
    even as can be, at most batch_size long, as many in every process, and passes made at the same time are neighbours
    in the batch, so of like length. A process that has nothing to do passes the first instance at weight 0, because
    what a loss tells other processes must be told by all."""
    passes = -(-rows // (world * batch_size))
    found = []
    for place in range(rank, passes * world, world):
        start, end = (edge * rows // (passes * world) for edge in (place, place + 1))
        found.append((slice(start, end), (end - start) / rows) if end > start else (slice(0, 1), 0.0))
    return found


def _rates(what: str, given: Sequence[float] | None, count: int, settings: EncoderSettings) -> list[float]:
    if given is None:
        return [settings.head_learning_rate] * count
    if len(given) != count:
        raise InputError(f"{len(given)} learning rates were given for {count} {what}: give one for each")
    return list(given)
