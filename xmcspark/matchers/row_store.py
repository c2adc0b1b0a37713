"""Feature rows kept once, in files that all tasks see, while training rows travel: a row goes to several units, or to
several labels, and what is sent of it is where it lies. Who trains on it copies it once, from there into the order of
training; who adds up rows reads it in place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcspark._native.csr import gather_rows
from xmcspark.errors import StoreError
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.mapped_arrays import mapped_arrays, write_arrays

_LARGE_SHARE = 8  # a unit with more than an eighth of the rows is large
_Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Kept:
    """Rows of one name."""

    arrays: _Arrays  # indptr, indices, data
    dense: np.ndarray | None  # their embeddings, one after the other

    @property
    def rows(self) -> int:
        return len(self.arrays[0]) - 1


def keep_rows(folder: Path, X: Csr) -> str:
    """Keeps all rows of X; the name that they are found by."""
    name = uuid.uuid4().hex
    dense = () if X.dense is None else (X.dense.ravel(),)
    write_arrays(folder / name, X.indptr, X.indices, X.data, *dense)
    return name


def references(rows: int) -> Csr:
    """What stands for the rows of X on their way: in row i the one entry i."""
    numbers = np.arange(rows, dtype=np.int32)
    return Csr(np.arange(rows + 1, dtype=np.int64), numbers, np.ones(rows, np.float32), (rows, max(1, rows)))


class RowStore:
    """The rows that are kept in a folder. Their files stay mapped from one small unit to the next: its rows lie all
    over them, so that mapping them anew costs more than copying the rows. Not while a large one trains, whose memory
    counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, _Kept] = {}

    def rows(self, names: Sequence[str], which: np.ndarray, rows: np.ndarray, features: int) -> Csr:
        """Row i is the kept row rows[i] of names[which[i]]."""
        for name in set(names) - set(self._opened):
            self._opened[name] = _opened(self._folder, name)
        stores = [self._opened[name] for name in names]
        sizes = np.array([store.rows for store in stores], np.int64)
        _check(self._folder, rows, sizes[which])
        arrays = gather_rows([store.arrays for store in stores], which, np.ascontiguousarray(rows, np.int32))
        dense = _gathered_dense(stores, which, rows)
        if _LARGE_SHARE * len(rows) > sizes.sum():
            self._opened.clear()
        return Csr(*arrays, (len(rows), features), dense)


def kept_rows(folder: Path, name: str, rows: np.ndarray) -> _Arrays:
    """(indptr, indices, data) of some rows of that name."""
    store = _opened(folder, name)
    _check(folder, rows, store.rows)
    arrays: _Arrays = gather_rows([store.arrays], np.zeros(len(rows), np.int32), rows)
    return arrays


def _opened(folder: Path, name: str) -> _Kept:
    indptr, indices, data, *dense = mapped_arrays(folder / name)
    return _Kept((indptr, indices, data), dense[0].reshape(len(indptr) - 1, -1) if dense else None)


def _gathered_dense(stores: Sequence[_Kept], which: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Embeddings of the rows that `RowStore.rows` gives; None if they have none."""
    widths = {0 if store.dense is None else int(store.dense.shape[1]) for store in stores}
    if widths <= {0}:
        return None
    found = np.empty((len(rows), max(widths)), np.float32)
    for number, store in enumerate(stores):
        here = np.flatnonzero(which == number)
        assert store.dense is not None or not len(here)
        if store.dense is not None:
            found[here] = store.dense[rows[here]]
    return found


def _check(folder: Path, rows: np.ndarray, sizes: np.ndarray | int) -> None:
    if len(rows) and (rows.min() < 0 or (rows >= sizes).any()):
        raise StoreError(f"{folder} does not hold the rows that it should: run the stage again")
