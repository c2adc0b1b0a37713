"""What UniDEC puts on the encoder (paper 5, section 2.4): g1 and unit length for the dual head, g2 for the classifier,
and the temperatures of their losses. Both start as rotations of the encoder's embeddings, so that similarities start
as those of the pre-trained encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from xmcspark.errors import InputError
from xmcspark.store.arrays import load_arrays, save_arrays

_KIND, _VERSION = "heads of UniDEC", 1
_ALIKE = 0.6  # a similarity that wrong labels of a pool seldom reach in a pre-trained encoder
_COLDEST = 0.01  # a learned temperature does not fall below: gradients would explode


class Head(nn.Module):
    """A linear map of embeddings to a space of labels, and the temperature of similarities there."""

    def __init__(self, inputs: int, width: int, dropout: float, temperature: float, learned: bool, seed: int):
        super().__init__()
        self.linear = nn.Linear(inputs, width)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(rotation(width, inputs, seed)))
            self.linear.bias.zero_()
        self.dropout = nn.Dropout(dropout)
        self.log_temperature = nn.Parameter(torch.tensor([float(np.log(temperature))]), requires_grad=learned)

    @property
    def width(self) -> int:
        return self.linear.out_features

    @property
    def temperature(self) -> Tensor:
        found = self.log_temperature.exp()
        return found.clamp(min=_COLDEST) if self.log_temperature.requires_grad else found

    def searched(self, embeddings: Tensor) -> Tensor:
        """What is compared when labels are searched: of length 1 in either head (paper 5, section 2.3.4)."""
        return nn.functional.normalize(self(embeddings), dim=1)


class DualHead(Head):
    """Φ_D = 𝔑(g1(Φ)), of queries and of label texts: linear, tanh, dropout, length 1."""

    def forward(self, embeddings: Tensor) -> Tensor:
        projected = self.dropout(torch.tanh(self.linear(embeddings)))
        return nn.functional.normalize(projected, dim=1)


class ClassifierHead(Head):
    """Φ_C = g2(Φ), of queries: linear, dropout, of any length. `offset` is for binary cross-entropy alone: it starts so
    low that hardly any label of a pool is taken for right. Else the many wrong ones would drown all else at first."""

    def __init__(
        self,
        inputs: int,
        width: int,
        dropout: float,
        temperature: float,
        learned: bool,
        seed: int,
        pool: int = 1000,
    ):
        super().__init__(inputs, width, dropout, temperature, learned, seed)
        below = max(float(np.log(max(2, pool) - 1)), _ALIKE / temperature)
        self.offset = nn.Parameter(torch.tensor([-below]))

    def forward(self, embeddings: Tensor) -> Tensor:
        found: Tensor = self.dropout(self.linear(embeddings))
        return found


@dataclass(frozen=True)
class Heads:
    """The heads of a model; None: not trained."""

    dual: DualHead | None = None
    classifier: ClassifierHead | None = None

    def __post_init__(self) -> None:
        if self.dual is None and self.classifier is None:
            raise InputError("a model needs at least one head: dual, classifier or both")

    @property
    def modules(self) -> list[Head]:
        return [head for head in (self.dual, self.classifier) if head is not None]

    def train(self, mode: bool = True) -> None:
        for head in self.modules:
            head.train(mode)

    def save(self, folder: Path | str) -> None:
        """Writes all weights as arrays."""
        arrays: dict[str, np.ndarray] = {}
        header = {}
        for name, head in (("dual", self.dual), ("classifier", self.classifier)):
            if head is not None:
                header[name] = {
                    "inputs": head.linear.in_features,
                    "width": head.width,
                    "dropout": head.dropout.p,
                }
                state = head.state_dict()
                arrays |= {f"{name}.{key}": value.cpu().numpy() for key, value in state.items()}
        save_arrays(Path(folder), _KIND, _VERSION, {"heads": header}, arrays)

    @staticmethod
    def load(folder: Path | str) -> Heads:
        """What `save` has written, ready to be searched with."""
        header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        kinds: dict[str, type[Head]] = {"dual": DualHead, "classifier": ClassifierHead}
        found: dict[str, Head] = {}
        for name, how in header["heads"].items():
            head = kinds[name](how["inputs"], how["width"], how["dropout"], 1.0, False, 0)
            own = {
                key.removeprefix(f"{name}."): np.array(a)
                for key, a in arrays.items()
                if key.startswith(f"{name}.")
            }
            head.load_state_dict({key: torch.from_numpy(value) for key, value in own.items()})
            found[name] = head.eval()
        return Heads(**found)  # type: ignore[arg-type]


def rotation(rows: int, columns: int, seed: int) -> np.ndarray:
    """float32 [rows, columns]: random directions at right angles to each other, along the shorter side."""
    drawn = np.random.Generator(np.random.PCG64(seed)).standard_normal(
        (max(rows, columns), min(rows, columns))
    )
    basis, upper = np.linalg.qr(drawn)
    basis = basis * np.sign(np.diagonal(upper))
    return np.ascontiguousarray(basis if rows >= columns else basis.T, np.float32)
