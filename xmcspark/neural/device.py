"""Where torch works and how precisely: the device, the type of its matrix products, and what to say about it. Decides,
before anything is trained, whether the machine can do what was asked for."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from xmcspark.errors import ConfigError
from xmcspark.neural.settings import EncoderSettings

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# A layer forward and backward, as training does it: where the processor promises what the machine then refuses, this
# dies of an illegal instruction, and so would the whole run.
_BF16_TRIAL = """
import torch
torch.set_num_threads(1)
layer, x = torch.nn.Linear(64, 64), torch.ones(32, 64)
with torch.autocast("cpu", torch.bfloat16):
    (layer(x) @ layer(x).T).float().sum().backward()
"""


@dataclass(frozen=True)
class Device:
    """A torch device and the precision of what is trained on it."""

    torch: torch.device
    precision: str = "fp32"

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in the wanted precision; nothing for fp32."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.torch.type, _TYPES[self.precision])

    @property
    def described(self) -> str:
        """For the log: "cpu, fp32, 2 threads"."""
        if self.torch.type == "cuda":
            return f"{self.torch} ({torch.cuda.get_device_name(self.torch)}), {self.precision}"
        threads = torch.get_num_threads()
        return f"{self.torch}, {self.precision}, {threads} thread{'s' if threads > 1 else ''}"


CPU = Device(torch.device("cpu"))


def chosen_device(settings: EncoderSettings, local_rank: int = 0) -> Device:
    """The device that settings ask for; ConfigError, with what to set instead, if this machine has none such.
    With several GPUs a process gets the one of its rank on this machine."""
    has_cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not has_cuda:
        raise ConfigError(
            [
                "encoder.device is cuda, and torch finds no GPU here: install a driver and a torch built for it, or "
                "set encoder.device to cpu or auto"
            ]
        )
    if settings.device == "cpu" or not has_cuda:
        _check_cpu_precision(settings.precision)
        return Device(torch.device("cpu"), settings.precision)
    if settings.precision == "bf16" and not torch.cuda.is_bf16_supported():
        raise ConfigError(["encoder.precision is bf16, which this GPU lacks: set encoder.precision to fp16"])
    return Device(torch.device("cuda", local_rank % torch.cuda.device_count()), settings.precision)


def _check_cpu_precision(precision: str) -> None:
    if precision == "fp16":
        raise ConfigError(
            [
                "encoder.precision is fp16, which is for GPUs, and this trains on the CPU: set encoder.precision to "
                "fp32, or to bf16 where the processor has it"
            ]
        )
    if precision == "bf16" and (outcome := _bf16_outcome()):
        crashed = outcome == -signal.SIGILL
        why = "an illegal instruction" if crashed else f"exit code {outcome}"
        raise ConfigError(
            [
                f"encoder.precision is bf16, and a trial of it on this CPU ended with {why}: set encoder.precision to "
                "fp32. Or, where the processor promises AMX that the machine refuses, set the environment variable "
                "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, which works but may be slower than fp32"
            ]
        )


@functools.cache
def _bf16_outcome() -> int:
    """The exit code of a process that tries it; negative: the signal it died of."""
    return subprocess.run([sys.executable, "-c", _BF16_TRIAL], capture_output=True, check=False).returncode


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """So many threads for torch on the CPU; as many as before, afterwards. The last bits of a result depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
