"""What each bucket should answer for each training row. A bucket's target is the largest target among its labels, never
binarised: it is the probability of the union if labels of a bucket imply each other, and a lower bound of it else. Its
relevance is the sum of its labels' relevance. Both as for nodes of a tree."""

from __future__ import annotations

import numpy as np

from xmcspark.errors import InputError
from xmcspark.mach.hashing import BucketHash
from xmcspark.matchers.targets import lift
from xmcspark.sparse.csr import Csr


def bucket_targets(Y: Csr, bucket_hash: BucketHash) -> Csr:
    """From targets of labels [rows, labels] to those of buckets [rows, B]."""
    return _joined(Y, bucket_hash, np.maximum)


def bucket_relevance(relevance: Csr, bucket_hash: BucketHash) -> Csr:
    """From the relevance of labels to that of buckets."""
    return _joined(relevance, bucket_hash, np.add)


def live_labels(Y: Csr) -> np.ndarray:
    """bool [labels]: those with a training row, which alone can be predicted."""
    _check_range(Y)
    live = np.zeros(Y.shape[1], bool)
    live[Y.indices[Y.data > 0]] = True
    return live


def _joined(Y: Csr, bucket_hash: BucketHash, how: np.ufunc) -> Csr:
    _check_range(Y)
    moved = Csr(
        Y.indptr, bucket_hash.of(Y.indices), Y.data.copy(), (Y.shape[0], bucket_hash.buckets)
    ).to_scipy()
    moved.has_sorted_indices = False
    moved.sort_indices()
    sorted_rows = Csr(Y.indptr, moved.indices.astype(np.int32, copy=False), moved.data, moved.shape)
    return lift(
        sorted_rows, np.arange(bucket_hash.buckets + 1), how
    )  # each bucket its own parent: joins equal ones


def _check_range(Y: Csr) -> None:
    if Y.nnz and (Y.indices.min() < 0 or Y.indices.max() >= Y.shape[1]):
        bad = Y.indices.min() if Y.indices.min() < 0 else Y.indices.max()
        raise InputError(
            f"label id {bad} is outside 0..{Y.shape[1] - 1}, the range that is hashed: count its label, or leave it out"
        )
