"""Predictions as two list columns of a table, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from xmcspark.matchers.predictions import Predictions
from xmcspark.sparse.arrow import parts_of_lists


def lists_of_predictions(found: Predictions) -> tuple[pa.Array, pa.Array]:
    """(labels, scores) as `list<int32>` and `list<float>`, without padding."""
    there = found.labels >= 0
    offsets = pa.array(np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int32))
    return (
        pa.ListArray.from_arrays(offsets, pa.array(found.labels[there])),
        pa.ListArray.from_arrays(offsets, pa.array(found.scores[there])),
    )


def predictions_of_lists(labels: pa.Array, scores: pa.Array) -> Predictions:
    """Ranked rows of different lengths, padded to the longest; null lists are rows without predictions."""
    indptr, ranked, values = parts_of_lists(labels, scores, "predictions")
    lengths = np.diff(indptr)
    there = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    padded_labels = np.full(there.shape, -1, np.int32)
    padded_scores = np.full(there.shape, -np.inf, np.float32)
    padded_labels[there], padded_scores[there] = ranked, values
    return Predictions(padded_labels, padded_scores)
