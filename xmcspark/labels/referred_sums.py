"""Label sums by reference. Most labels have at most one instance in a group of rows, so that sums by label are hardly
smaller than the rows. Where tasks see one disk, rows are kept once, and what travels of a label is where its rows lie;
who receives that adds them up, with the same products on the same grid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xmcspark.labels.label_sums import LabelledRows, positives_by_label
from xmcspark.matchers.row_store import kept_rows
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked


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


def referred_rows(folder: Path, payload: object) -> LabelledRows:
    """The rows that a payload refers to, copied out of their store: one store is mapped at a time, so that what is in
    memory does not grow with the instances."""
    labels, indptr, rows, targets, name = unpacked(payload)
    which, place = np.unique(rows, return_inverse=True)
    X = kept_rows(folder, name.tobytes().decode(), which)
    positives = Csr(indptr, place.astype(np.int32), targets, (len(labels), len(which)))
    return LabelledRows(labels, positives, X)
