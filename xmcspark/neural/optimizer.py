"""What moves the weights of the encoder and of modules: AdamW, with a rate for each, and the scale of the loss that
half precision needs. Its state has names, so that checkpoints hold plain tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from xmcspark.neural.settings import EncoderSettings


def make_optimizer(
    encoder: torch.nn.Module,
    modules: Sequence[torch.nn.Module],
    rates: Sequence[float],
    settings: EncoderSettings,
) -> torch.optim.AdamW:
    """AdamW over the encoder (settings.learning_rate) and modules (`rates`). Matrices decay; biases, scales of layer
    norms and temperatures do not. Groups keep their largest rate as "largest"."""
    groups = []
    for part, rate in zip((encoder, *modules), (settings.learning_rate, *rates), strict=True):
        trained = [weight for weight in part.parameters() if weight.requires_grad]
        for decays in (True, False):
            weights = [weight for weight in trained if (weight.ndim >= 2) == decays]
            decay = settings.weight_decay if decays else 0.0
            groups.append({"params": weights, "lr": rate, "largest": rate, "weight_decay": decay})
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    for weight in weights_of(optimizer):  # AdamW's own start, made now: all processes have the same tensors
        optimizer.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
    return optimizer


def weights_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """All weights it moves, in order."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def state_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The moments and counts of all weights, by a name that follows from their order."""
    return {
        f"{number}.{name}": tensor
        for number, weight in enumerate(weights_of(optimizer))
        for name, tensor in optimizer.state[weight].items()
    }


def module_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights, each once also where modules share them, and buffers that are saved with them."""
    kept = module.state_dict(keep_vars=True)
    buffers = {name: tensor for name, tensor in module.named_buffers() if name in kept}
    return {**dict(module.named_parameters()), **buffers}


def set_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Each group's rate to a share of its largest."""
    for group in optimizer.param_groups:
        group["lr"] = group["largest"] * share


def gradient_norm(weights: Iterable[torch.nn.Parameter]) -> float:
    """The norm of all gradients together."""
    norms = [torch.linalg.vector_norm(weight.grad) for weight in weights if weight.grad is not None]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def scale_gradients(weights: Iterable[torch.nn.Parameter], factor: float) -> None:
    for weight in weights if factor != 1.0 else ():
        if weight.grad is not None:
            weight.grad.mul_(factor)


@dataclass
class LossScale:
    """What a loss in fp16 is multiplied by, so that small gradients are not lost: halved when gradients overflow (that
    step is left out), doubled after many steps without. torch's GradScaler does not know of row tables."""

    active: bool
    scale: float = 2.0**16
    good_steps: int = 0
    patience: int = 2000

    @property
    def factor(self) -> float:
        return self.scale if self.active else 1.0

    def accepts(self, finite: bool) -> bool:
        """Whether the step may be made; learns from it."""
        if not self.active:
            return True
        if not finite:
            self.scale, self.good_steps = max(1.0, self.scale / 2), 0
            return False
        self.good_steps += 1
        if self.good_steps >= self.patience:
            self.scale, self.good_steps = self.scale * 2, 0
        return True


def clipping(norm: float, limit: float) -> float:
    """The factor that brings a norm down to the limit; 0: no limit."""
    return limit / norm if limit and math.isfinite(norm) and norm > limit else 1.0
