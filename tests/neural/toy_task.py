"""A task with all that a task may have: texts with a word as label, a table of outputs of which a batch gathers some,
and a module. Shared by the tests of the training loop and by the processes they start."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_model import WORDS, some_texts

from xmcspark.neural.length_batches import EpochBatches
from xmcspark.neural.memory import smaller_passes
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.tokens import TokenStore

ROWS = 60


class Scale(torch.nn.Module):
    """A learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, margins: torch.Tensor) -> torch.Tensor:
        return margins * self.log_scale.exp()


@dataclass
class ToyTask:
    """The first word of each text is to be found, among the words of the batch."""

    tokens: TokenStore
    labels: np.ndarray
    table: RowTable
    step_rows: int
    steps: int = 10
    name: str = "toy"
    rate_settings: tuple[str, ...] = ("encoder.head_learning_rate",)
    values: list[float] = field(
        default_factory=list
    )  # what validate answers, one after the other; empty: None
    scale: Scale = field(default_factory=Scale)
    seen: list[dict[str, np.ndarray]] = field(default_factory=list)  # the weights at each check
    die_at: int | None = None  # the step whose loss kills the run
    poison_at: int | None = None  # the step whose loss is no number

    def __post_init__(self) -> None:
        self._batches = EpochBatches(self.tokens.lengths, self.step_rows, seed=3)
        self._step = -1
        self.kept_from = 0

    @property
    def tables(self) -> list[RowTable]:
        return [self.table]

    @property
    def modules(self) -> list[torch.nn.Module]:
        return [self.scale]

    def batch(self, step: int) -> np.ndarray:
        self._step = step
        return self._batches.batch(step)

    def loss(self, encoder: Any, rows: np.ndarray) -> torch.Tensor:
        if self._step == self.die_at:
            raise KeyboardInterrupt
        words = np.unique(self.labels[self._batches.batch(self._step)])
        # Outputs are those of the whole step, so that the loss is a mean over instances however they are passed.
        weights, bias = self.table.gathered(words)
        margins = self.scale(encoder(self.tokens.batch(rows)) @ weights.T + bias)
        targets = torch.from_numpy(np.searchsorted(words, self.labels[rows]))
        loss = torch.nn.functional.cross_entropy(margins, targets)
        return loss * float("nan") if self._step == self.poison_at else loss

    def validate(self, encoder: Any) -> float | None:
        if not self.values:
            return None
        assert not encoder.training
        assert not torch.is_grad_enabled()
        self.seen.append(weights_of(encoder, self))
        return self.values[min(self._step, len(self.values) - 1)]

    def checkpointed(self, step: int) -> None:
        self.kept_from = step

    def memory_advice(self, settings: EncoderSettings) -> str:
        return smaller_passes(settings)


def make_task(folder: Path, encoder: Any, *, mapped: bool = False, **how: Any) -> ToyTask:
    """A task whose table starts from fixed random weights, in files of `folder` if mapped."""
    texts = some_texts(ROWS, seed=1)
    tokens = TokenStore.write(folder / "tokens", encoder, [texts])
    labels = np.array([WORDS.index(text.split()[0]) for text in texts])
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((len(WORDS), encoder.width)).astype(np.float32)
    table = RowTable.create(len(WORDS), encoder.width, folder / "table" if mapped else None, weights=weights)
    return ToyTask(tokens, labels, table, **how)


def weights_of(encoder: Any, task: ToyTask) -> dict[str, np.ndarray]:
    """All that training has changed."""
    found = {name: weight.detach().numpy().copy() for name, weight in encoder.named_parameters()}
    found |= {"table.weights": np.array(task.table.weights), "table.bias": np.array(task.table.bias)}
    return {**found, "scale": task.scale.log_scale.detach().numpy().copy()}
