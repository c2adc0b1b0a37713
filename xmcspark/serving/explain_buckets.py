"""Why a text gets a label from a sketch: what every feature adds to the margin of the label's bucket, repetition by
repetition. The bucket stands where a matcher of a tree would: a child of a root."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xmcspark.errors import InputError
from xmcspark.mach.model import Sketch
from xmcspark.mach.repetition import LinearRepetition
from xmcspark.serving.explain import Step, WeighedText, added
from xmcspark.sparse.csr import Csr


class BucketStep(NamedTuple):
    """What one repetition says of a label."""

    repetition: int
    score: float  # of its bucket
    step: Step


def bucket_steps(sketch: Sketch, text: WeighedText, X: Csr, label: int) -> Iterator[BucketStep]:
    """Of each repetition. Terms are told where they are sums of the text's own features: of linear classifiers whose
    inputs are not hashed; elsewhere the margin stands alone."""
    if not (0 <= label < sketch.n_labels and sketch.live[label]):
        raise InputError(f"label {label} is not in the model: it had no training instances, or is not active")
    scores = sketch.probabilities(X)[0]
    for number, repetition in enumerate(sketch.repetitions):
        bucket = int(repetition.part.bucket_hash.of(np.array([label]))[0])
        if isinstance(repetition, LinearRepetition) and not repetition.part.hashed_features:
            bias = repetition.bias[bucket]
            terms, margin = added(bias, text, _weights(repetition, bucket, text.features))
        else:
            margin = float(repetition.margins(X)[0, bucket])
            bias, terms = np.float32(margin), []
        step = Step(0, 0, bucket, False, float(bias), terms, margin)
        yield BucketStep(number, float(scores[number, bucket]), step)


def _weights(repetition: LinearRepetition, bucket: int, features: np.ndarray) -> dict[int, np.float32]:
    """What the bucket's classifier has for some features; those without are left out."""
    found = {}
    for feature in features.tolist():
        first, last = repetition.indptr[feature], repetition.indptr[feature + 1]
        at = first + np.searchsorted(repetition.buckets[first:last], bucket)
        if at < last and repetition.buckets[at] == bucket:
            found[feature] = repetition.values[at]
    return found
