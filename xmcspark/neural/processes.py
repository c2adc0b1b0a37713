"""The processes that fine-tune together: one, or those that torchrun or TorchDistributor has started (environment
variables RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). Each has all weights; what they tell each other goes through
here. Nothing distributed is loaded where there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np
import torch

from xmcspark.errors import ConfigError, TransientError

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_BUCKET = 4 << 20  # numbers that are added up at once
_PATIENCE = timedelta(minutes=30)  # to wait for a process that is checking or writing a checkpoint


class Processes:
    """One process: nothing to tell. `open_processes` gives the group that fits."""

    rank: int = 0  # of this process
    world: int = 1  # how many there are
    local_rank: int = 0  # on this machine: which GPU

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces each tensor by its sum over all processes: the same bits everywhere."""

    def gather(self, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all processes, by rank; their first dimension may differ."""
        return [array]

    def all_have(self, something: bool) -> bool:
        """Whether all processes have something. What they make together must be missing together: one that looks for it
        by itself may find what another has just written, and then they wait for each other at different places."""
        return all(bool(found[0]) for found in self.gather(np.array([something])))

    def gather_with_gradient(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows of all processes, by rank, one after the other. Gradients find back to where rows came from, added
        up over the losses of all processes, as `fine_tune` adds gradients: the sum of losses is what is minimised."""
        return tensor

    def broadcast(self, thing: Any) -> Any:
        """What the first process has, everywhere. A small Python object."""
        return thing

    def broadcast_tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        """Overwrites tensors by those of the first process."""

    def barrier(self) -> None:
        """Waits until all are here."""

    def close(self) -> None:
        """Leaves the group."""

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


ONE_PROCESS = Processes()


def local_rank() -> int:
    """Of this process on its machine, by the environment: known before the group is opened, which needs the device."""
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("RANK") or 0)


def open_processes(device: torch.device | None = None) -> Processes:
    """The group this process was started in, by the environment; a single process if there is none. nccl on cuda, else
    gloo."""
    given = {name: os.environ.get(name) for name in _NEEDED}
    if not given["WORLD_SIZE"] or given["WORLD_SIZE"] == "1":
        return ONE_PROCESS
    if missing := [name for name, value in given.items() if not value]:
        raise ConfigError(
            [
                f"WORLD_SIZE is {given['WORLD_SIZE']}, and {', '.join(missing)} is not set: start the processes with "
                "torchrun, or unset WORLD_SIZE to train in one"
            ]
        )
    return _Group(device or torch.device("cpu"))


class _Group(Processes):
    """Processes that torch.distributed has brought together."""

    def __init__(self, device: torch.device) -> None:
        self._dist: Any = import_module("torch.distributed")
        self._device = device  # where what is sent must lie
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        try:
            self._dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
        except RuntimeError as error:
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise TransientError(
                f"the processes that train together did not meet at {where}: {error}. Check that the machines reach "
                "each other there, and that the port is free"
            ) from error
        self.rank, self.world = self._dist.get_rank(), self._dist.get_world_size()
        self.local_rank = local_rank()

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in bucket]).to(self._device)
            self._dist.all_reduce(flat)
            for tensor, summed in zip(bucket, torch.split(flat, [t.numel() for t in bucket]), strict=True):
                tensor.detach().copy_(summed.reshape(tensor.shape))

    def gather(self, array: np.ndarray) -> list[np.ndarray]:
        numbers = int(np.prod(array.shape[1:], dtype=np.int64))
        raw = np.ascontiguousarray(array).reshape(len(array), numbers).view(np.uint8)
        rows = self._sizes(len(array))
        parts = self._gathered(torch.from_numpy(raw), rows)
        shapes = [(count, *array.shape[1:]) for count in rows]
        return [
            part.cpu().numpy().view(array.dtype).reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def gather_with_gradient(self, tensor: torch.Tensor) -> torch.Tensor:
        gathered: torch.Tensor = _GatherRows.apply(tensor, self)  # type: ignore[no-untyped-call]
        return gathered

    def broadcast(self, thing: Any) -> Any:
        box = [thing]
        self._dist.broadcast_object_list(box, src=0, device=self._device)
        return box[0]

    def broadcast_tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        for tensor in tensors:
            sent = tensor.detach().to(self._device).contiguous()
            self._dist.broadcast(sent, src=0)
            tensor.detach().copy_(sent)

    def barrier(self) -> None:
        self._dist.barrier()

    def close(self) -> None:
        self._dist.destroy_process_group()

    def _sizes(self, rows: int) -> list[int]:
        sizes = torch.zeros(self.world, dtype=torch.int64, device=self._device)
        sizes[self.rank] = rows
        self._dist.all_reduce(sizes)
        return [int(size) for size in sizes]

    def _gathered(self, tensor: torch.Tensor, rows: list[int]) -> list[torch.Tensor]:
        """gloo gathers equal shapes only: shorter ones travel with empty rows behind them."""
        padded = torch.zeros((max(rows), *tensor.shape[1:]), dtype=tensor.dtype, device=self._device)
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in rows]
        self._dist.all_gather(parts, padded)
        return [part[:count] for part, count in zip(parts, rows, strict=True)]


class _GatherRows(torch.autograd.Function):
    """Rows of all processes forward; backward, a process's own rows get what the losses of all make of them."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, group: _Group) -> torch.Tensor:
        rows = group._sizes(len(tensor))
        ctx.group, ctx.start, ctx.own = group, sum(rows[: group.rank]), len(tensor)
        return torch.cat(group._gathered(tensor.detach(), rows)).to(tensor.device)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        summed = gradients[0].clone()
        ctx.group.add([summed])
        return summed[ctx.start : ctx.start + ctx.own], None


def _buckets(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Tensors of one type in their order, some million numbers together: few messages, bounded memory."""
    buckets: list[list[torch.Tensor]] = []
    size = 0
    for tensor in tensors:
        if not buckets or size + tensor.numel() > _BUCKET or buckets[-1][0].dtype != tensor.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(tensor)
        size += tensor.numel()
    return buckets
