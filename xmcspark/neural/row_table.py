"""A head over many outputs: a weight vector and a bias for each, trained with Adam row by row. A step gathers the rows
its batch needs, and only these and their moments are touched, in memory or in mapped files: what a step takes does
not depend on the number of rows.

Adam (Kingma and Ba 2015) corrects the bias of a row's moments by the row's own number of updates: a row that few
batches need moves as a parameter does that was trained for so many steps, and its moments wait meanwhile. Decay is that
of AdamW (Loshchilov and Hutter 2019), apart from the moments: what is added to a gradient is scaled away with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.lib.format import open_memmap

from xmcspark.errors import InputError
from xmcspark.neural.processes import ONE_PROCESS, Processes
from xmcspark.store.arrays import ArrayInParts, load_arrays, save_arrays

_KIND, _VERSION = "row table", 1
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_BLOCK = 16 << 20  # bytes copied or sent at once
_WHAT_IS_SERVED = ("weights", "bias")  # the rest is of use while training goes on


class RowTable:
    """Weights [rows, width] and a bias each, with Adam's moments and the number of updates of each row. `create` and
    `open` make one."""

    def __init__(self, arrays: dict[str, np.ndarray], decay: float, folder: Path | None) -> None:
        self._arrays, self._folder = arrays, folder
        self.decay = decay  # λ: a step takes rate · λ of the weights of the rows it touches
        self.rows, self.width = arrays["weights"].shape
        self._gatherings: list[tuple[np.ndarray, torch.Tensor, torch.Tensor]] = []

    @staticmethod
    def create(
        rows: int,
        width: int,
        folder: Path | str | None = None,
        *,
        weights: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        decay: float = 0.0,
    ) -> RowTable:
        """A new table, of zeros or of the given start; in memory, or in files of `folder`, in the place of an older
        table there. A folder belongs to one process alone: several processes need one each."""
        if rows < 1 or width < 1:
            raise InputError(
                f"a table of {rows} rows of {width} numbers was asked for: there must be one of each"
            )
        shapes = _shapes(rows, width)
        for name, start in (("weights", weights), ("bias", bias)):
            if start is not None and start.shape != shapes[name][0]:
                raise InputError(
                    f"{name} to start from have shape {start.shape}, the table needs {shapes[name][0]}"
                )
        if folder is None:
            table = RowTable({name: np.zeros(*how) for name, how in shapes.items()}, decay, None)
        else:
            files = {name: _zeros(*how) for name, how in shapes.items()}
            save_arrays(Path(folder), _KIND, _VERSION, {"decay": decay}, files)
            table = RowTable.open(folder)
        for name, start in (("weights", weights), ("bias", bias)):
            if start is not None:
                _copy(start, table._arrays[name])
        return table

    @staticmethod
    def open(folder: Path | str) -> RowTable:
        """A table in files, as it was left."""
        folder = Path(folder)
        header, arrays = load_arrays(folder, _KIND, _VERSION)
        writable = {name: np.asarray(open_memmap(folder / f"{name}.npy", mode="r+")) for name in arrays}
        return RowTable(writable, float(header["decay"]), folder)

    def gathered(
        self, ids: np.ndarray, device: torch.device | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(weights [ids, width], bias [ids]) of distinct rows, as leaves that a loss is differentiated by. Where
        gradients are on, the next `step` moves these rows. May be called several times before a step."""
        ids = np.asarray(ids, np.int64)
        if len(ids) and (ids.min() < 0 or ids.max() >= self.rows):
            raise InputError(f"rows {ids.min()} to {ids.max()} were asked of a table of {self.rows}")
        if len(np.unique(ids)) != len(ids):
            raise InputError(
                "rows of a table must be gathered once each: use np.unique(ids, return_inverse=True)"
            )
        weights, bias = (
            torch.from_numpy(np.take(self._arrays[name], ids, axis=0)).to(device or "cpu")
            for name in _WHAT_IS_SERVED
        )
        if torch.is_grad_enabled():
            weights.requires_grad_()
            bias.requires_grad_()
            self._gatherings.append((ids, weights, bias))
        return weights, bias

    def step(self, rate: float, processes: Processes = ONE_PROCESS, scale: float = 1.0) -> None:
        """Moves all rows gathered since the last step by their gradients (times `scale`), added up over all gatherings
        and over processes in order of rank."""
        ids, gradients = self._pending()
        if processes.world > 1:
            ids, gradients = (np.concatenate(processes.gather(part)) for part in (ids, gradients))
        self._gatherings.clear()
        if not len(ids):
            return
        touched, place = np.unique(ids, return_inverse=True)
        summed = torch.zeros(len(touched), self.width + 1)
        summed.index_add_(0, torch.from_numpy(place.reshape(-1)), torch.from_numpy(gradients))
        self._move(touched, summed.mul_(scale), rate)

    def forget(self) -> None:
        """Drops what was gathered without a step."""
        self._gatherings.clear()

    def pending_is_finite(self) -> bool:
        """Whether all gradients since the last step are numbers."""
        return bool(np.isfinite(self._pending()[1]).all())

    def _pending(self) -> tuple[np.ndarray, np.ndarray]:
        """(ids, gradients [ids, width + 1]) of all gatherings, one after the other; the last column is the bias."""
        used = [given for given in self._gatherings if given[1].grad is not None or given[2].grad is not None]
        ids = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _, _ in used)])
        gradients = np.zeros((len(ids), self.width + 1), np.float32)
        start = 0
        for rows, weights, bias in used:
            part = gradients[start : start + len(rows)]
            if weights.grad is not None:
                part[:, :-1] = weights.grad.cpu().numpy()
            if bias.grad is not None:
                part[:, -1] = bias.grad.cpu().numpy()
            start += len(rows)
        return ids, gradients

    def _move(self, ids: np.ndarray, gradients: torch.Tensor, rate: float) -> None:
        """One step of Adam for the given rows. The gradients are used up."""
        arrays = self._arrays
        weights = torch.from_numpy(np.take(arrays["weights"], ids, axis=0))
        bias = torch.from_numpy(np.take(arrays["bias"], ids))
        moments = torch.from_numpy(np.take(arrays["moments"], ids, axis=0))
        updates = arrays["updates"][ids] + 1
        if self.decay:
            weights.mul_(1 - rate * self.decay)
        first, second = moments[:, 0], moments[:, 1]
        first.lerp_(gradients, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradients, gradients, value=1 - _BETA2)
        size, unbiased = (
            torch.from_numpy(factor.astype(np.float32))[:, None]
            for factor in (rate / (1 - _BETA1**updates), 1 / np.sqrt(1 - _BETA2**updates))
        )
        change = first * size / (second.sqrt().mul_(unbiased).add_(_EPSILON))
        arrays["weights"][ids] = weights.sub_(change[:, :-1]).numpy()
        arrays["bias"][ids] = bias.sub_(change[:, -1]).numpy()
        arrays["moments"][ids] = moments.numpy()
        arrays["updates"][ids] = updates

    @property
    def weights(self) -> np.ndarray:
        """float32 [rows, width]: the table itself, mapped if it lies in files. Read it, do not write it."""
        return _read_only(self._arrays["weights"])

    @property
    def bias(self) -> np.ndarray:
        """float32 [rows]."""
        return _read_only(self._arrays["bias"])

    @property
    def private_bytes(self) -> int:
        """Of memory that the table holds by itself: all of it, or none if it lies in files."""
        return 0 if self._folder else self._bytes()

    @property
    def mapped_bytes(self) -> int:
        """Of files mapped into memory."""
        return self._bytes() if self._folder else 0

    def _bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def copy_to(self, folder: Path, *, finished: bool = False) -> None:
        """For checkpoints: the state, file by file; nothing of a mapped table is loaded. A finished table is copied
        without its moments."""
        names = _WHAT_IS_SERVED if finished else tuple(self._arrays)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            if self._folder is None:
                np.save(folder / f"{name}.npy", self._arrays[name], allow_pickle=False)
            else:  # what was written to the map is in the file as far as this machine can tell
                shutil.copyfile(self._folder / f"{name}.npy", folder / f"{name}.npy")

    def copy_from(self, folder: Path) -> None:
        """Takes back what `copy_to` has written; moments of a finished table stay as they are."""
        self.forget()
        for name, array in self._arrays.items():
            if not (path := folder / f"{name}.npy").exists() and name not in _WHAT_IS_SERVED:
                continue
            saved = np.load(path, mmap_mode="r", allow_pickle=False)
            if saved.shape != array.shape:
                raise InputError(f"{path} has shape {saved.shape}, the table needs {array.shape}")
            _copy(saved, array)

    def broadcast(self, processes: Processes) -> None:
        """Makes the table that of the first process, a block at a time."""
        for array in self._arrays.values():
            for block in _blocks(array):
                part = torch.from_numpy(np.ascontiguousarray(array[block]))
                processes.broadcast_tensors([part])
                array[block] = part.numpy()


def _shapes(rows: int, width: int) -> dict[str, tuple[tuple[int, ...], type]]:
    return {
        "weights": ((rows, width), np.float32),
        "bias": ((rows,), np.float32),
        "moments": ((rows, 2, width + 1), np.float32),  # side by side, so that a row is one place in the file
        "updates": ((rows,), np.int32),
    }


def _zeros(shape: tuple[int, ...], kind: type) -> ArrayInParts:
    """A file of zeros, which takes no room before it is written to."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize

    def lengthen(stream: IO[bytes]) -> None:
        stream.truncate(stream.tell() + size)

    return ArrayInParts(np.dtype(kind), shape, lengthen)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """A block at a time, so that neither has to be in memory."""
    for block in _blocks(target):
        target[block] = source[block]


def _blocks(array: np.ndarray) -> Iterator[slice]:
    rows = max(1, _BLOCK * len(array) // max(1, array.nbytes))
    return (slice(start, start + rows) for start in range(0, len(array), rows))
