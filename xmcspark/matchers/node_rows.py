"""Which rows train which node of a level: those of true parents, of predicted parents, of pairs that the user gives;
and no more of them than `max_rows`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmcspark.matchers.row_selection import RowCap, row_cap, row_hashes
from xmcspark.matchers.targets import select
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows


def node_rows(whole: list[Csr], partial: list[Csr]) -> Csr:
    """Rows x nodes: 1 where all of the node's children train on the row, 0 where only given pairs do."""
    if len(whole) == 1 and not partial:
        return whole[0]
    either = _pattern([*whole, *partial])
    if partial and whole:
        # The sum holds 2 where a row is whole and 1 where it is partial; less 1, partial ones stay as zeros.
        either = either + _pattern(whole)
    if partial:
        either.data -= 1.0
    return as_csr(either)


def capped_rows(
    rows: Csr,
    Y: Csr,
    child_ptr: np.ndarray,
    node_seeds: np.ndarray,
    row_keys: np.ndarray,
    max_rows: int,
    known: Mapping[int, RowCap] | None = None,
) -> Csr:
    """Nodes x rows without those that nodes above the limit leave out. Y: rows x children of the level. `known`: the
    caps by node, where rows that they leave out may be gone already."""
    counts = np.diff(rows.indptr)
    nodes = np.flatnonzero(counts > max_rows).tolist() if known is None else sorted(known)
    if not nodes:
        return rows
    keep = np.ones(rows.nnz, bool)
    for node in nodes:
        at = slice(rows.indptr[node], rows.indptr[node + 1])
        inside = children_of(take_rows(Y, rows.indices[at]), child_ptr[node], child_ptr[node + 1])
        cap = known[node] if known is not None else _cap_of(inside, max_rows)
        if cap is not None:
            keep[at] = cap.keeps(row_hashes(int(node_seeds[node]), row_keys[rows.indices[at]]), inside)
    return select(rows, keep)


def children_of(Y: Csr, first: int, last: int) -> Csr:
    """Columns `first` to `last` of Y, numbered from 0."""
    inside = select(Y, (Y.indices >= first) & (Y.indices < last))
    columns = (inside.indices - np.int32(first)).astype(np.int32)
    return Csr(inside.indptr, columns, inside.data, (Y.shape[0], int(last - first)))


def _cap_of(Y: Csr, max_rows: int) -> RowCap | None:
    return row_cap(Y.shape[0], np.bincount(Y.indices, minlength=Y.shape[1]), max_rows)


def _pattern(matrices: list[Csr]) -> Any:
    """1 wherever one of the matrices has an entry."""
    total = _ones(matrices[0])
    for matrix in matrices[1:]:
        total = total + _ones(matrix)
    total.data[:] = 1.0
    return total


def _ones(matrix: Csr) -> Any:
    return Csr(matrix.indptr, matrix.indices, np.ones(matrix.nnz, np.float32), matrix.shape).to_scipy()
