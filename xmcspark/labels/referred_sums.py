"""Label sums by reference. Most labels have at most one instance in a group of rows, so that sums by label are hardly
smaller than the rows. Where tasks see one disk, rows are kept once, and what travels of a label is where its rows lie;
who receives that adds them up, with the same products on the same grid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xmcspark.labels.label_sums import positives_by_label
from xmcspark.matchers.row_store import kept_arrays
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.spgemm import row_sums


def referred_by_block(Y: Csr, store: str, block_size: int) -> Iterator[tuple[int, bytes]]:
    """(block, payload): the rows of each label of Y, a payload for each block of labels. `store`: the name that rows
    are kept under (matchers/row_store.py)."""
    labels, positives = positives_by_label(Y)
    name = np.frombuffer(store.encode(), np.uint8)
    block = labels // block_size
    for number in np.unique(block).tolist():
        a, b = (int(end) for end in np.searchsorted(block, [number, number + 1]))
        at = slice(positives.indptr[a], positives.indptr[b])
        indptr = positives.indptr[a : b + 1] - positives.indptr[a]
        yield number, packed(labels[a:b], indptr, positives.indices[at], positives.data[at], name)


def sums_of_referred(
    folder: Path, cols: int, grid: float, threads: int, payload: object
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `label_sums` gives for the labels of a payload: labels, indptr, indices, sums. One store is mapped at a
    time: what is in memory does not grow with the instances."""
    labels, indptr, rows, targets, name = unpacked(payload)
    X = kept_arrays(folder, name.tobytes().decode(), rows)
    positives = Csr(indptr, rows, targets, (len(labels), len(X[0]) - 1))
    sums, _ = row_sums(positives, X, cols, grid=grid, as_double=True, threads=threads)
    return labels, *sums
