"""Rows of Z on their way into the tasks that cluster labels: gathered from batches or from packed payloads, in the
order of the labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows

_PAYLOAD_ENTRIES = 1 << 13  # of 8 bytes each


def label_rows(table: pa.Table, features: int) -> tuple[np.ndarray, Csr]:
    """(label ids, increasing; their rows of Z) from label, indices, values."""
    labels = table["label"].to_numpy()
    return _in_order(labels, csr_of_lists(table["indices"], table["values"], features, "label_features"))


def packed_by_cluster(labels: np.ndarray, Z: Csr, cluster: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """(cluster, payload) of the labels of each cluster that occurs, in payloads of about one size."""
    order = np.argsort(cluster, kind="stable")
    entries = np.cumsum(np.diff(Z.indptr)[order])
    new = np.diff(np.append(cluster[order], -1)) != 0
    new |= np.diff(np.append(entries, 0) // _PAYLOAD_ENTRIES) != 0
    ends = np.flatnonzero(new) + 1
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        rows = order[start:end]
        part = take_rows(Z, rows)
        yield int(cluster[rows[0]]), packed(labels[rows], part.indptr, part.indices, part.data)


def gathered_payloads(payloads: Iterable[object], features: int) -> tuple[np.ndarray, Csr]:
    """As `label_rows`, from payloads of `packed_by_cluster`."""
    parts = [unpacked(payload) for payload in payloads]
    labels = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    return _in_order(labels, _stacked([part[1:] for part in parts], features))


def _stacked(parts: list[list[np.ndarray]], features: int) -> Csr:
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part[0]) for part in parts)])
    indices = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
    data = np.concatenate([np.zeros(0, np.float32), *(part[2] for part in parts)])
    return Csr(np.cumsum(lengths), indices, data, (len(lengths) - 1, features))


def _in_order(labels: np.ndarray, Z: Csr) -> tuple[np.ndarray, Csr]:
    if np.all(labels[1:] > labels[:-1]):
        return labels, Z
    order = np.argsort(labels, kind="stable")
    return labels[order], take_rows(Z, order)
