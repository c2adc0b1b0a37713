"""Which bucket a label is in, in each repetition. Computed from seed, repetition and label id, never stored: whoever
knows these three agrees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xmcspark._native.sketch import bucket_of
from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams

PRIME = 2**31 - 1


@dataclass(frozen=True)
class BucketHash:
    """h(l) = ((a l + b) mod p) mod B with p = 2^31 - 1, a in [1, p) and b in [0, p) drawn from (seed, repetition).

    Over the draws two different labels meet with probability at most 1/B (Carter and Wegman 1979): (a x + b, a y + b)
    mod p is each pair of different residues with the same probability, and of the p (p - 1) pairs at most
    p (ceil(p / B) - 1) <= p (p - 1) / B agree mod B.
    """

    buckets: int  # B
    seed: int
    repetition: int

    def __post_init__(self) -> None:
        if not 2 <= self.buckets <= PRIME:
            raise InputError(f"buckets is {self.buckets}: labels can be hashed into 2 to {PRIME} buckets")
        if not 0 <= self.seed < 2**63 or self.repetition < 0:
            raise InputError(
                f"seed {self.seed}, repetition {self.repetition}: give a seed of 0 to 2^63 - 1, and count repetitions "
                "from 0"
            )

    @cached_property
    def parameters(self) -> tuple[int, int]:
        """a and b."""
        draws = hashed(streams(self.seed, "bucket hash", np.array([self.repetition])), np.arange(2))
        return 1 + int(draws[0]) % (PRIME - 1), int(draws[1]) % PRIME

    def of(self, labels: np.ndarray) -> np.ndarray:
        """int32: the bucket of each label id."""
        ids = np.asarray(labels)
        if ids.dtype.kind not in "iu":
            raise InputError(f"label ids are {ids.dtype}: integers are needed")
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= PRIME):
            bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise InputError(
                f"label id {bad} is outside 0..{PRIME - 1}, the range that is hashed: number the labels from 0"
            )
        flat = np.ascontiguousarray(ids, np.int32).reshape(-1)
        return bucket_of(flat, *self.parameters, self.buckets).reshape(ids.shape)
