"""Tokenised texts in a folder, mapped into memory: texts are tokenised once, and epochs read token numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np

from xmcspark.errors import InputError
from xmcspark.neural.batch import Batch
from xmcspark.neural.encoder import TextEncoder
from xmcspark.store.arrays import ArrayInParts, load_arrays, save_arrays

_KIND, _VERSION = "token store", 1
PORTION = 4096  # texts that are tokenised together


class TokenStore:
    """Token numbers of each row's text. `write` and `open` make one."""

    def __init__(self, ids: np.ndarray, offsets: np.ndarray, pad: int) -> None:
        self._ids, self._offsets, self._pad = ids, offsets, pad

    @staticmethod
    def write(
        folder: Path | str,
        encoder: TextEncoder,
        texts: Iterable[Sequence[str]],
        report: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Tokenises texts, given in portions; memory is that of a portion and 8 bytes a row. `report` is called with
        the rows done. The header is written last."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        spooled = folder / "ids.spooled"
        lengths = [np.zeros(1, np.int64)]  # so that sums are offsets
        done = 0
        with open(spooled, "wb") as stream:
            for portion in texts:
                for start in range(0, len(portion), PORTION):
                    rows = encoder.tokenize(list(portion[start : start + PORTION]))
                    lengths.append(np.array([len(row) for row in rows], np.int64))
                    np.array([token for row in rows for token in row], np.int32).tofile(stream)
                    done += len(rows)
                if report is not None:
                    report(done)
        offsets = np.cumsum(np.concatenate(lengths))
        ids = ArrayInParts(np.dtype(np.int32), (int(offsets[-1]),), lambda target: _copy(spooled, target))
        save_arrays(
            folder, _KIND, _VERSION, {**_way(encoder), "pad": encoder.pad}, {"offsets": offsets, "ids": ids}
        )
        spooled.unlink()
        return TokenStore.open(folder)

    @staticmethod
    def open(folder: Path | str, encoder: TextEncoder | None = None) -> TokenStore:
        """What `write` has written; InputError if it is damaged, or was tokenised otherwise than `encoder` does."""
        header, arrays = load_arrays(Path(folder), _KIND, _VERSION)
        for name, value in _way(encoder).items() if encoder is not None else ():
            if header.get(name) != value:
                raise InputError(
                    f"{folder} was tokenised with {name} {header.get(name)}, and the encoder has {value}: remove the "
                    "folder, so that texts are tokenised again"
                )
        ids, offsets = arrays["ids"], arrays["offsets"]
        if not len(offsets) or offsets[-1] != len(ids):
            raise InputError(f"{folder}: offsets and ids do not belong together: remove the folder")
        return TokenStore(ids, offsets, int(header["pad"]))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Token numbers of all rows, one after the other, and where each row begins."""
        return self._ids, self._offsets

    @cached_property
    def lengths(self) -> np.ndarray:
        """int32: tokens of each row."""
        return np.diff(self._offsets).astype(np.int32)

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows in the order given, padded to the longest of them."""
        starts, ends = self._offsets[rows], self._offsets[np.asarray(rows) + 1]
        return Batch.of([self._ids[start:end] for start, end in zip(starts, ends, strict=True)], self._pad)


def _way(encoder: TextEncoder) -> dict[str, str | int]:
    """What decides which numbers a text becomes."""
    return {"vocabulary_hash": encoder.vocabulary_hash, "max_length": encoder.max_length}


def _copy(path: Path, target: IO[bytes]) -> None:
    with open(path, "rb") as source:
        shutil.copyfileobj(source, target, 1 << 20)
