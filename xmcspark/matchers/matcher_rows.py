"""Trained matchers as rows of the table matchers, and back: one row a child, with the numbers that the tables use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from xmcspark.matchers.train_unit import TrainedLevel
from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.csr import Csr
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import node_starts

ROWS = pa.schema(
    [
        ("member", pa.int32()),
        ("sub_tree", pa.int32()),
        ("node", pa.int32()),
        ("child", pa.int32()),
        ("is_label", pa.bool_()),
        ("bias", pa.float32()),
        ("features", pa.list_(pa.int32())),
        ("weights", pa.list_(pa.float32())),
        ("positives", pa.int64()),
        ("trained_in", pa.string()),
    ]
)
_MOST_WEIGHTS = 1 << 20  # in one batch
_MOST_ROWS = 1 << 14


def matcher_rows(
    tree: LabelTree, trained: TrainedLevel, member: int, sub_tree: int, run: str
) -> Iterator[pa.RecordBatch]:
    """Rows of a level of a unit, in batches."""
    starts, is_label = node_starts(tree), trained.level == tree.depth - 1
    nodes = starts[trained.level] + trained.nodes
    children = tree.labels[trained.children] if is_label else starts[trained.level + 1] + trained.children
    W = trained.matchers.weights
    ends = W.indptr + W.width * np.arange(len(W.indptr))
    first = 0
    while first < len(nodes):
        full = int(np.searchsorted(ends, ends[first] + _MOST_WEIGHTS, side="right")) - 1
        last = min(max(first + 1, full), first + _MOST_ROWS, len(nodes))
        at, count = slice(first, last), last - first
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, member, np.int32)),
                pa.array(np.full(count, sub_tree, np.int32)),
                pa.array(nodes[at].astype(np.int32)),
                pa.array(children[at].astype(np.int32)),
                pa.array(np.full(count, is_label)),
                pa.array(trained.matchers.bias[at]),
                *lists_of_csr(_some_rows(W, first, last).expanded()),
                pa.array(trained.positives[at].astype(np.int64)),
                pa.array([run] * count, pa.string()),
            ],
            schema=ROWS,
        )
        first = last


def _some_rows(W: Csr, first: int, last: int) -> Csr:
    at = slice(W.indptr[first], W.indptr[last])
    indptr = W.indptr[first : last + 1] - W.indptr[first]
    dense = None if W.dense is None else W.dense[first:last]
    return Csr(indptr, W.indices[at], W.data[at], (last - first, W.shape[1]), dense)
