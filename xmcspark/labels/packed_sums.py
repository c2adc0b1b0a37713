"""Label sums on their way between tasks: cut by block of labels, packed into binaries of some ten kilobytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xmcspark.labels.label_sums import LabelSums, features_of_sums
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.sparse.spgemm import Cut

_PAYLOAD_ENTRIES = 1 << 12  # of 12 bytes each: large for Spark, and a batch of payloads stays small


def packed_by_block(sums: LabelSums, block_size: int) -> Iterator[tuple[int, bytes]]:
    """(block, payload): every label goes to the block `label // block_size`; a payload is of one block."""
    block = sums.labels // block_size
    piece = sums.indptr[:-1] // _PAYLOAD_ENTRIES
    new = (block[1:] != block[:-1]) | (piece[1:] != piece[:-1])
    starts = np.flatnonzero(np.concatenate([[True], new])) if len(block) else np.zeros(0, np.int64)
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


def features_of_block(
    payloads: list[bytes], ids: np.ndarray, block_size: int, cols: int, max_features: int | None, threads: int
) -> tuple[Csr, Cut]:
    """Rows of Z for the labels `ids` (increasing), which are all of one block, from the block's payloads."""
    if not len(ids) or not payloads:
        empty = np.zeros(len(ids) + 1, np.int64)
        return Csr(empty, np.zeros(0, np.int32), np.zeros(0, np.float32), (len(ids), cols)), Cut()
    base = np.int32(ids[0] // block_size * block_size)
    parts = []
    for payload in payloads:
        labels, indptr, indices, sums = unpacked(payload)
        parts.append(LabelSums(labels - base, indptr, indices, sums, cols))
    block, cut = features_of_sums(parts, block_size, max_features=max_features, threads=threads)
    return take_rows(block, ids - base), cut
