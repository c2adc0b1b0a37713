"""Sums of the features of each label's positive instances, exact in any order: partitions form their own,
and adding them gives the same bits however the instances were split (DESIGN.md section 2, principle 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark._native.csr import first_bad_row, largest_magnitude
from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.spgemm import Cut, exact_grid, row_sums


@dataclass(frozen=True)
class LabelSums:
    """v_l of paper 1, eq. 1, before normalisation: one sparse row for each label that has positives here."""

    labels: np.ndarray  # int32, increasing
    indptr: np.ndarray  # int64[len(labels) + 1]
    indices: np.ndarray  # int32, increasing in each row
    sums: np.ndarray  # float64, multiples of the grid
    cols: int  # features

    def __post_init__(self) -> None:
        if len(self.indptr) != len(self.labels) + 1:
            raise InputError(f"label sums: {len(self.indptr)} row pointers for {len(self.labels)} labels")
        if len(self.labels) and (self.labels[0] < 0 or np.any(self.labels[1:] <= self.labels[:-1])):
            raise InputError("label sums: labels must be increasing and not negative")
        bad = first_bad_row(self.indptr, self.indices, self.sums, self.cols)
        if bad is not None:
            raise InputError(f"label sums, row {bad[0]}: malformed ({bad[1]})")


@dataclass(frozen=True)
class LabelledRows:
    """Rows of X and the labels they count for, not added up yet."""

    labels: np.ndarray  # int32, increasing
    positives: Csr  # labels × rows: the target of each pair
    rows: tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, data

    @property
    def entries(self) -> int:
        return len(self.rows[1])


def pifa_grid(X: Any, Y: Any) -> float:
    """The grid for `label_sums` of these instances. For parts of a whole, give `exact_grid` the maxima over
    all of them: the largest |x|, the largest |y| and the most positives of a label."""
    x, y = as_csr(X, "X", dense="expand"), as_csr(Y, "Y")
    positives = np.bincount(y.indices, minlength=1).max() if y.nnz else 0
    return exact_grid(largest_magnitude(y.data), largest_magnitude(x.data), int(positives))


def label_sums(X: Any, Y: Any, *, grid: float, threads: int = 1) -> LabelSums:
    """Yᵀ X of one part of the instances, unnormalised. Use the same `grid` for all parts."""
    x = as_csr(X, "X", dense="expand")
    labels, positives = positives_by_label(as_csr(Y, "Y", rows=x.shape[0]))
    rows, _ = row_sums(
        positives, (x.indptr, x.indices, x.data), x.shape[1], grid=grid, as_double=True, threads=threads
    )
    return LabelSums(labels, *rows, cols=x.shape[1])


def add_label_sums(parts: Iterable[LabelSums], *, threads: int = 1) -> LabelSums:
    """The sums of several parts; the order of the parts does not matter."""
    labels, selector, rows, cols = _stacked(list(parts))
    total, _ = row_sums(selector, rows, cols, as_double=True, threads=threads)
    return LabelSums(labels, *total, cols=cols)


def features_of_sums(
    parts: Iterable[LabelSums], n_labels: int, *, max_features: int | None = None, threads: int = 1
) -> tuple[Csr, Cut]:
    """Z (n_labels × features): the parts added, cut to the largest `max_features` and normalised."""
    labels, selector, rows, cols = _stacked(list(parts))
    if len(labels) and labels[-1] >= n_labels:
        raise InputError(f"label sums name label {labels[-1]}, but there are only {n_labels} labels")
    found, cut = row_sums(selector, rows, cols, normalise=True, max_features=max_features, threads=threads)
    return _of_labels(labels, found, (n_labels, cols)), cut


def sums_of_rows(parts: list[LabelledRows], cols: int, *, grid: float, threads: int = 1) -> LabelSums:
    """What `label_sums` gives for these rows."""
    labels, positives, rows = _joined(parts)
    found, _ = row_sums(positives, rows, cols, grid=grid, as_double=True, threads=threads)
    return LabelSums(labels, *found, cols=cols)


def features_of_rows(
    parts: list[LabelledRows],
    shape: tuple[int, int],
    *,
    grid: float,
    max_features: int | None = None,
    threads: int = 1,
) -> tuple[Csr, Cut]:
    """Z, what `features_of_sums` gives for the sums of these rows: added up, cut and normalised at once."""
    labels, positives, rows = _joined(parts)
    how: dict[str, Any] = {"normalise": True, "max_features": max_features, "threads": threads}
    found, cut = row_sums(positives, rows, shape[1], grid=grid, **how)
    return _of_labels(labels, found, shape), cut


def _of_labels(
    labels: np.ndarray, rows: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int]
) -> Csr:
    """Rows of some labels among all labels, the others empty."""
    indptr, indices, data = rows
    entries = np.zeros(shape[0] + 1, np.int64)
    entries[labels.astype(np.int64) + 1] = np.diff(indptr)
    return Csr(np.cumsum(entries), indices, data, shape)


def positives_by_label(y: Csr) -> tuple[np.ndarray, Csr]:
    """The labels that occur in Y, and for each its instances (the rows of Yᵀ that are not empty)."""
    if y.shape[1] > 8 * y.nnz:  # few of many labels: nothing here may be as long as all labels
        labels, compact = np.unique(y.indices, return_inverse=True)
        by_label = Csr(y.indptr, compact.astype(np.int32), y.data, (y.shape[0], len(labels))).transpose()
        return labels.astype(np.int32), by_label
    transposed = y.transpose()
    present = np.flatnonzero(np.diff(transposed.indptr))
    indptr = np.append(transposed.indptr[present], transposed.nnz)
    shape = (len(present), y.shape[0])
    return present.astype(np.int32), Csr(indptr, transposed.indices, transposed.data, shape)


def _joined(
    parts: list[LabelledRows],
) -> tuple[np.ndarray, Csr, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(labels, positives, rows) of all parts: all rows, one part's after the other's, and those of each label."""
    counts = [len(part.rows[0]) - 1 for part in parts]
    before = np.concatenate([[0], np.cumsum(counts)])
    owner = np.concatenate([np.repeat(part.labels, np.diff(part.positives.indptr)) for part in parts])
    row = np.concatenate([part.positives.indices + at for part, at in zip(parts, before[:-1], strict=True)])
    target = np.concatenate([part.positives.data for part in parts])
    order = np.argsort(owner, kind="stable")
    labels, first = np.unique(owner[order], return_index=True)
    positives = Csr(
        np.append(first, len(owner)).astype(np.int64),
        row[order].astype(np.int32),
        target[order],
        (len(labels), int(before[-1])),
    )
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.rows[0]) for part in parts)])
    indices, data = (np.concatenate([part.rows[at] for part in parts]) for at in (1, 2))
    return labels.astype(np.int32), positives, (np.cumsum(lengths), indices, data)


def _stacked(
    parts: list[LabelSums],
) -> tuple[np.ndarray, Csr, tuple[np.ndarray, np.ndarray, np.ndarray], int]:
    """(labels, selector, rows, cols): all rows of the parts, and which of them belong to each label."""
    if not parts:
        raise InputError("no label sums to add: give at least one part (it may be empty)")
    cols = parts[0].cols
    if any(part.cols != cols for part in parts):
        raise InputError(f"label sums of different feature spaces: {sorted({part.cols for part in parts})}")
    owner = np.concatenate([part.labels for part in parts])
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    indices = np.concatenate([part.indices for part in parts])
    sums = np.concatenate([part.sums for part in parts])
    labels, first = np.unique(np.sort(owner), return_index=True)
    selector = Csr(
        np.append(first, len(owner)).astype(np.int64),
        np.argsort(owner, kind="stable").astype(np.int32),
        np.ones(len(owner), np.float32),
        (len(labels), len(owner)),
    )
    return labels.astype(np.int32), selector, (indptr, indices, sums), cols
