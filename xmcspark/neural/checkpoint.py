"""Checkpoints of fine-tuning, in a folder for each task: written whole or not at all, found again by the newest that is
whole, refused if they are of another configuration or of other data. Tensors are safetensors, tables are copied file by
file, the rest is JSON: nothing is pickled."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from xmcspark.errors import InputError
from xmcspark.neural.row_table import RowTable

log = logging.getLogger(__name__)

_HEADER = "checkpoint.json"
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STEP = re.compile(r"step-\d+")
_FINISHED = "finished"

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class State:
    """What training changes, as live tensors and tables: a checkpoint is written from them and read back into them."""

    tensors: Mapping[str, Tensors]  # by the name of a file
    tables: Sequence[RowTable]

    def only(self, *names: str) -> State:
        """With some files of tensors alone."""
        return State({name: self.tensors[name] for name in names}, self.tables)


@dataclass(frozen=True)
class Checkpoint:
    """One that is whole: what it says of itself."""

    folder: Path
    step: int
    finished: bool  # of a task that was trained to its end
    facts: Mapping[str, Any]  # JSON values, as they were given

    def read_into(self, state: State) -> None:
        """Overwrites the tensors and tables that `state` names."""
        for name, tensors in state.tensors.items():
            path = self.folder / f"{name}.safetensors"
            try:
                saved = load_file(path)
                with torch.no_grad():
                    for key, tensor in tensors.items():
                        tensor.copy_(saved[key].reshape(tensor.shape))
            except (SafetensorError, OSError, KeyError, RuntimeError) as error:
                raise InputError(
                    f"{path} does not fit what is trained now ({error}): remove {self.folder.parent} to train anew"
                ) from error
        for number, table in enumerate(state.tables):
            table.copy_from(self.folder / f"table-{number}")


class Checkpoints:
    """Where the checkpoints of one training run lie, and what they are of. One process writes and reads them."""

    def __init__(self, folder: Path | str, identity: Mapping[str, Any]) -> None:
        """`identity`: names and JSON values of what must be the same for a checkpoint to be of use (settings, hash of
        the data, seed). A checkpoint with another one is an error that names what differs."""
        self.folder = Path(folder)
        self.identity: dict[str, Any] = json.loads(json.dumps(dict(identity)))  # as it will be read back

    def of(self, **more: Any) -> Checkpoints:
        """The same place, with more in the identity."""
        return Checkpoints(self.folder, {**self.identity, **more})

    def newest(self, task: str) -> Checkpoint | None:
        """The last one of a task that is whole; None if there is none. InputError if one is of something else."""
        folder = self._folder(task)
        names = os.listdir(folder) if folder.is_dir() else []
        steps = sorted((name for name in names if _STEP.fullmatch(name)), reverse=True)
        for name in [_FINISHED, *steps] if _FINISHED in names else steps:
            if (found := self._read(folder / name)) is not None:
                return found
        return None

    def at(self, task: str, step: int) -> Checkpoint | None:
        """The one after `step` steps, if it is there and whole."""
        return self._read(self._folder(task) / _folder_name(step))

    def finished(self, task: str) -> Checkpoint | None:
        """The last one of a task that was trained to its end, if it is there and whole: for what it says of itself,
        since nobody knows any more what it must have in common with the encoder it began with."""
        folder = self._folder(task) / _FINISHED
        header = _whole_header(folder)
        return None if header is None else Checkpoint(folder, header["step"], True, header["facts"])

    def _read(self, folder: Path) -> Checkpoint | None:
        header = _whole_header(folder)
        if header is None:
            log.warning("%s is not whole and is passed over", folder)
            return None
        self._check(folder, header)
        return Checkpoint(folder, header["step"], folder.name == _FINISHED, header["facts"])

    def write(
        self, task: str, step: int, state: State, facts: Mapping[str, Any], *, finished: bool = False
    ) -> None:
        """Writes one, or nothing if this is interrupted. A finished task's tables are kept without moments."""
        target = self._folder(task) / (_FINISHED if finished else _folder_name(step))
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, tensors in state.tensors.items():
            sent = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
            save_file(sent, partial / f"{name}.safetensors")
        for number, table in enumerate(state.tables):
            table.copy_to(partial / f"table-{number}", finished=finished)
        sizes = {str(path.relative_to(partial)): path.stat().st_size for path in _files(partial)}
        header = {
            "version": _VERSION,
            "step": step,
            "identity": self.identity,
            "facts": facts,
            "files": sizes,
        }
        (partial / _HEADER).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for path in [*partial.rglob("*"), partial]:
            _to_disk(path)
        shutil.rmtree(target, ignore_errors=True)  # of an earlier attempt, not whole
        os.rename(partial, target)
        _to_disk(target.parent)

    def keep_only(self, task: str, *steps: int) -> None:
        """Deletes all others of a task but the finished one, and what was left half-written."""
        kept = {_FINISHED, *map(_folder_name, steps)}
        for path in self._folder(task).iterdir():
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def forget(self, task: str | None = None) -> None:
        """Deletes the checkpoints of a task, or all."""
        shutil.rmtree(self.folder if task is None else self._folder(task), ignore_errors=True)

    def _folder(self, task: str) -> Path:
        if not _NAME.fullmatch(task):
            raise InputError(
                f"a task is named {task!r}, which is no name for a folder: use letters, digits, - and _"
            )
        return self.folder / task

    def _check(self, folder: Path, header: Mapping[str, Any]) -> None:
        saved, now = header["identity"], self.identity
        differing = [
            f"{name} was {json.dumps(saved.get(name))} and is {json.dumps(now.get(name))}"
            for name in sorted({*saved, *now})
            if saved.get(name) != now.get(name)
        ]
        if differing:
            raise InputError(
                f"the checkpoint {folder} is of other settings or data: {'; '.join(differing)}. Set them as they "
                f"were to go on from it, or remove {self.folder} to train anew"
            )


def _folder_name(step: int) -> str:
    return f"step-{step:08d}"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _whole_header(folder: Path) -> dict[str, Any] | None:
    """The header if it can be read and all files have the sizes it lists."""
    try:
        header = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in header["files"]}
        whole = header["version"] == _VERSION and sizes == header["files"]
        return header if whole and isinstance(header["identity"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _to_disk(path: Path) -> None:
    """So that a name never points to what a power cut has taken."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
