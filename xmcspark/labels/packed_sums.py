"""Label sums on their way between tasks: cut by block of labels, packed into binaries of some ten kilobytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from xmcspark.labels.label_sums import (
    LabelledRows,
    LabelSums,
    add_label_sums,
    features_of_rows,
    features_of_sums,
    sums_of_rows,
)
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.sparse.spgemm import Cut

_PAYLOAD_ENTRIES = 1 << 12  # of 12 bytes each: large for Spark, and a batch of payloads stays small
_HELD_ENTRIES = 1 << 22  # of a block, before they are added up
_HELD_ROWS = 1 << 22  # entries of rows, before they are


def packed_by_block(sums: LabelSums, block_size: int) -> Iterator[tuple[int, bytes]]:
    """(block, payload): every label goes to the block `label // block_size`; a payload is of one block."""
    if not len(sums.labels):
        return
    block = sums.labels // block_size
    piece = sums.indptr[:-1] // _PAYLOAD_ENTRIES
    new = (block[1:] != block[:-1]) | (piece[1:] != piece[:-1])
    starts = np.flatnonzero(np.concatenate([[True], new]))
    for a, b in zip(starts, np.append(starts[1:], len(block)), strict=True):
        first, last = int(sums.indptr[a]), int(sums.indptr[b])
        yield (
            int(block[a]),
            packed(
                sums.labels[a:b],
                sums.indptr[a : b + 1] - first,
                sums.indices[first:last],
                sums.sums[first:last],
            ),
        )


class BlockSums:
    """The sums of one block of labels, from its payloads. They are added up whenever enough have come: what is held
    follows the block's labels and features, not the instances. `grid`: that rows are added up on."""

    def __init__(
        self, block: int, block_size: int, cols: int, threads: int, grid: float | None = None
    ) -> None:
        self.number = block
        self._base = np.int32(block * block_size)
        self._size, self._cols, self._threads, self._grid = block_size, cols, threads, grid
        self._parts: list[LabelSums] = []
        self._rows: list[LabelledRows] = []  # not added up yet
        self._entries, self._most = 0, _HELD_ENTRIES
        self._row_entries = 0
        self.received = 0  # entries, before they were added up

    def add(self, payload: object) -> None:
        """A payload of `packed_by_block`."""
        labels, indptr, indices, sums = unpacked(payload)
        self._add(LabelSums(labels - self._base, indptr, indices, sums, self._cols))
        self.received += len(indices)

    def add_rows(self, rows: LabelledRows) -> None:
        """Rows of X; few of them, as most blocks have, become features in one go."""
        self._rows.append(replace(rows, labels=rows.labels - self._base))
        self._row_entries += rows.entries
        self.received += rows.entries
        if self._row_entries > _HELD_ROWS:
            self._sum_rows()

    def _sum_rows(self) -> None:
        if self._rows:
            assert self._grid is not None
            self._add(sums_of_rows(self._rows, self._cols, grid=self._grid, threads=self._threads))
        self._rows, self._row_entries = [], 0

    def _add(self, sums: LabelSums) -> None:
        self._parts.append(sums)
        self._entries += len(sums.indices)
        if self._entries > self._most:
            total = add_label_sums(self._parts, threads=self._threads)
            self._parts, self._entries = [total], len(total.indices)
            self._most = max(_HELD_ENTRIES, 2 * self._entries)

    def total(self) -> LabelSums:
        """All that came, added up; labels by their ids."""
        self._sum_rows()
        if not self._parts:
            nothing = np.zeros(0, np.int32)
            return LabelSums(nothing, np.zeros(1, np.int64), nothing, np.zeros(0), self._cols)
        total = add_label_sums(self._parts, threads=self._threads)
        return replace(total, labels=total.labels + self._base)

    def features(self, ids: np.ndarray, max_features: int | None) -> tuple[Csr, Cut]:
        """Rows of Z for the labels `ids` (increasing), which are all of the block."""
        if not len(ids) or not (self._parts or self._rows):
            empty = np.zeros(len(ids) + 1, np.int64)
            return Csr(empty, np.zeros(0, np.int32), np.zeros(0, np.float32), (len(ids), self._cols)), Cut()
        block, cut = self._block_features(max_features)
        return take_rows(block, ids - self._base), cut

    def _block_features(self, max_features: int | None) -> tuple[Csr, Cut]:
        how: dict[str, Any] = {"max_features": max_features, "threads": self._threads}
        if not self._parts:
            assert self._grid is not None
            return features_of_rows(self._rows, (self._size, self._cols), grid=self._grid, **how)
        self._sum_rows()
        return features_of_sums(self._parts, self._size, **how)
