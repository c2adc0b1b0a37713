"""What can be fine-tuned on: the interface between the training loop and the methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings


class Task(Protocol):
    """What is trained: one level of XR-Transformer, X-Transformer's matcher, UniDEC."""

    @property
    def name(self) -> str:
        """Unique in a run, usable as the name of a folder."""
        ...

    @property
    def steps(self) -> int:
        """How many; 0 is fine."""
        ...

    @property
    def step_rows(self) -> int:
        """Instances of a step, all processes and forward passes together; the last of an epoch may have fewer."""
        ...

    @property
    def tables(self) -> Sequence[RowTable]:
        """Heads over many outputs, whose rows `loss` gathers."""
        ...

    @property
    def modules(self) -> Sequence[torch.nn.Module]:
        """Heads with ordinary parameters."""
        ...

    @property
    def rate_settings(self) -> Sequence[str]:
        """The settings, beside encoder.learning_rate, that say how large steps of tables and modules are."""
        ...

    def batch(self, step: int) -> np.ndarray:
        """Instances (numbers) of the whole step, `step_rows` of them or fewer. Neighbours are passed forward together,
        so like lengths should be neighbours. A function of `step` alone."""
        ...

    def loss(self, encoder: TextEncoder, rows: np.ndarray) -> torch.Tensor:
        """The mean loss of some instances of the batch: one forward pass of this process. The step's loss is the mean
        over all instances, so passes are weighed by their rows, and gradients are added up over processes."""
        ...

    def validate(self, encoder: TextEncoder) -> float | None:
        """How good the encoder is now, higher is better; None if nobody wants to know. Called in every process, with
        the encoder in evaluation mode and without gradients; the first process's answer counts."""
        ...

    def checkpointed(self, step: int) -> None:
        """Told in every process when a checkpoint is on disk: training will not go on from before `step`, so what only
        earlier steps need may go."""
        ...

    def memory_advice(self, settings: EncoderSettings) -> str:
        """What to say if a step does not fit into memory: what it was, and which settings would make it fit."""
        ...
