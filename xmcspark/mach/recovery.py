"""From scores of buckets back to labels: which labels are scored, and what a label's score is made of.

A label has one bucket in each of R repetitions; its score is the mean, the minimum or the median of the scores of its
buckets, or the unbiased estimate below. `exact` scores every live label. `fast` scores labels that are in one of the
`top_buckets` best buckets in at least `min_count` repetitions; their scores are bit for bit those of `exact`. A minimum
count above 1 is a matter of taste, not of speed: many of the best labels by mean share one bucket with a better one and
have nothing else. Equal scores are ranked by label id.

**Unbiased, if each row has one label** (a softmax over buckets). Let p_l be the probabilities of labels, which add up
to 1, and P_r(b) the sum over the labels of bucket b. Another label shares the bucket of l with probability 1/B, so over
draws of the hash E[P_r(h(l))] = p_l + (1 - p_l) / B = p_l (B - 1) / B + 1/B, and

    B / (B - 1) * (mean - 1/B)

has the expectation p_l, whatever R; its variance falls with 1/R. The hash used here (`BucketHash`) lets two labels meet
with a probability from 1/B * (1 - (B - 1) / (p - 1)) to 1/B, p = 2^31 - 1: the estimate is low by less than 5e-10.

**If rows have several labels**, a bucket's target is the largest among its labels (`targets.py`). With y_l the targets,
y_l <= P_r(h(l)) <= y_l + the sum of the others in the bucket. So mean, minimum and median never under-estimate; the
mean over-estimates by the collision mass at most, which is (sum of y - y_l) / B on average; the minimum by the least of
R collision masses. The unbiased estimate would take off 1/B, the collision mass of targets that add up to 1: too little
if they add up to more, too much if less. Ranking by it is ranking by the mean. All this is about targets: what
classifiers get wrong comes on top.

**Memory.** `exact` keeps a table of R buckets a live label (2 bytes each if B <= 65536, else 4), `fast` an index of 4
bytes for each label in each repetition, and for each bucket in each once for every 2^20 labels. They are made when
first needed, from the hashes. A label set whose table or index is too large is recovered range by range, and what each
range found is merged (`Found.merged`): the same bits as in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from xmcspark._native.sketch import AGGREGATES, ExactRecovery, FastRecovery
from xmcspark.errors import InputError
from xmcspark.mach.hashing import PRIME, BucketHash
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import check_threads

MOST_REPETITIONS = 10_000
# Chosen by bench/mach_recovery.py: as many buckets as labels that are asked for find nearly all of the best; with four
# times as many, and about there, it is fastest, because bounds leave little to be scored.
BUCKETS_A_LABEL = 4
FEWEST_BUCKETS = 20
# Scores of buckets that are what they are.
_AS_GIVEN = ("identity", 1, False, False)


@dataclass(frozen=True)
class Recipe:
    """How labels are recovered."""

    method: Literal["fast", "exact"] = "fast"
    aggregate: str = "mean"
    top_buckets: int = 0  # of each repetition; 0: four for each label that is asked for, and at least 20
    min_count: int = 1  # repetitions in which a label's bucket must be among them
    scoring: Scoring | None = None  # what becomes of margins; None: scores of buckets are given

    def check(self, repetitions: int) -> None:
        if self.method not in ("fast", "exact"):
            raise InputError(f"recovery is {self.method!r}: fast or exact is needed")
        if self.aggregate not in AGGREGATES:
            raise InputError(f"aggregate is {self.aggregate!r}: one of {', '.join(AGGREGATES)} is needed")
        if self.top_buckets < 0:
            raise InputError(
                f"top_buckets is {self.top_buckets}: give at least 1, or 0 for as many as top_k needs"
            )
        if not 1 <= self.min_count <= repetitions:
            raise InputError(
                f"min_count is {self.min_count} with {repetitions} repetitions: give 1 to {repetitions}"
            )

    def limits(self, top_k: int) -> tuple[int, int]:
        """top_buckets and min_count, for so many labels."""
        return self.top_buckets or max(BUCKETS_A_LABEL * top_k, FEWEST_BUCKETS), self.min_count

    @property
    def kernel_form(self) -> tuple[str, int, bool, bool]:
        return self.scoring.kernel_form if self.scoring else _AS_GIVEN


@dataclass(frozen=True)
class Found:
    """The best labels of some range, to be merged with those of others. Labels that were found in `min_count`
    repetitions come before those found in fewer, which are there only if the former are too few."""

    labels: np.ndarray  # int32 [rows, k]; -1 where there are fewer
    scores: np.ndarray  # float32 [rows, k], falling
    levels: (
        np.ndarray
    )  # int32 [rows, k]: repetitions it was found in, at most min_count; 0 if exact, -1 for none

    @property
    def predictions(self) -> Predictions:
        return Predictions(self.labels, self.scores)

    @staticmethod
    def merged(parts: Iterable[Found], top_k: int) -> Found:
        """The best of all, as if their ranges had been one."""
        joined = [
            np.concatenate(arrays, axis=1) for arrays in zip(*(vars(p).values() for p in parts), strict=True)
        ]
        if not joined:
            raise InputError("there is nothing to merge: recover at least one range")
        labels, scores, levels = joined
        best = np.lexsort((labels, -scores, -levels))[:, :top_k]
        kept = [np.take_along_axis(array, best, axis=1) for array in joined]
        ranked = np.lexsort((kept[0], -kept[1]))
        return Found(*(np.take_along_axis(array, ranked, axis=1) for array in kept))


class Recovery:
    """Recovers the live labels of the range [first, last) from scores of buckets. Several threads may use it."""

    def __init__(
        self,
        hashes: Sequence[BucketHash],
        live: np.ndarray,
        *,
        first: int = 0,
        last: int | None = None,
        threads: int = 1,
    ):
        """`hashes`: one for each repetition. `live`: bool for each label id; the others are never found."""
        self.hashes = _checked_hashes(hashes)
        live = np.asarray(live)
        if live.ndim != 1 or live.dtype != bool or not len(live) or len(live) > PRIME:
            raise InputError(
                f"live is {live.dtype} {live.shape}: a bool for each of 1 to {PRIME} labels is needed"
            )
        check_threads(threads)
        self.n_labels, self.first, self.last = len(live), first, len(live) if last is None else last
        if not 0 <= first <= self.last <= self.n_labels:
            raise InputError(f"the range {first} to {self.last} is not one of labels 0 to {self.n_labels}")
        self.labels = (np.flatnonzero(live[first : self.last]) + first).astype(np.int32)
        self._threads = threads

    @property
    def buckets(self) -> int:
        return self.hashes[0].buckets

    def exact(
        self,
        scores: np.ndarray,
        *,
        top_k: int,
        aggregate: str = "mean",
        scoring: Scoring | None = None,
        threads: int = 1,
    ) -> Predictions:
        """The `top_k` best of all live labels of each row; `scores`: float32 [rows, R, B], or one row [R, B]."""
        return self.find(scores, Recipe("exact", aggregate, scoring=scoring), top_k, threads).predictions

    def fast(
        self,
        scores: np.ndarray,
        *,
        top_k: int,
        aggregate: str = "mean",
        top_buckets: int = 0,
        min_count: int = 1,
        scoring: Scoring | None = None,
        threads: int = 1,
    ) -> Predictions:
        """The `top_k` best of the labels found in the `top_buckets` best buckets (0: 4 top_k, at least 20) of at least
        `min_count` repetitions.

        If these are fewer, labels found less often take the places that are left, down to those not found at all.
        """
        recipe = Recipe("fast", aggregate, top_buckets, min_count, scoring)
        return self.find(scores, recipe, top_k, threads).predictions

    def find(self, scores: np.ndarray, recipe: Recipe, top_k: int, threads: int = 1) -> Found:
        """With `recipe.scoring`, `scores` are margins, and only those that matter become probabilities."""
        recipe.check(len(self.hashes))
        check_threads(threads)
        self.check_top_k(top_k)
        scores = self._checked(scores)
        form = recipe.kernel_form
        try:
            if recipe.method == "exact":
                return Found(*self._table.recover(scores, form, recipe.aggregate, top_k, threads))
            return Found(
                *self._index.recover(scores, form, recipe.aggregate, top_k, threads, *recipe.limits(top_k))
            )
        except ValueError as error:
            bad = np.flatnonzero(~(np.abs(scores).max(axis=(1, 2)) <= 1e8))
            raise InputError(
                f"row {bad[0] if len(bad) else 0}: {error}; train the repetitions again"
            ) from error

    def check_top_k(self, top_k: int) -> None:
        """Before anything is computed."""
        if not 1 <= top_k <= self.n_labels:
            raise InputError(f"top_k is {top_k} with {self.n_labels} labels: ask for 1 to {self.n_labels}")

    @property
    def exact_bytes(self) -> int:
        """Of the table."""
        return self._table.n_bytes

    @property
    def fast_bytes(self) -> int:
        """Of the index."""
        return self._index.n_bytes

    @cached_property
    def _table(self) -> ExactRecovery:
        return ExactRecovery(self.labels, self._parameters, self.buckets, self._threads)

    @cached_property
    def _index(self) -> FastRecovery:
        return FastRecovery(self.labels, self._parameters, self.buckets, self._threads)

    @property
    def _parameters(self) -> list[tuple[int, int]]:
        return [bucket_hash.parameters for bucket_hash in self.hashes]

    def _checked(self, scores: np.ndarray) -> np.ndarray:
        given = np.asarray(scores)
        given = given[None] if given.ndim == 2 else given
        if given.dtype != np.float32 or given.shape[1:] != (len(self.hashes), self.buckets):
            raise InputError(
                f"scores of buckets are {given.dtype} {given.shape}: float32 [rows, {len(self.hashes)}, "
                f"{self.buckets}] is needed, as the hashes have it"
            )
        return np.ascontiguousarray(given)


def _checked_hashes(hashes: Sequence[BucketHash]) -> tuple[BucketHash, ...]:
    if not 1 <= len(hashes) <= MOST_REPETITIONS:
        raise InputError(f"{len(hashes)} repetitions: 1 to {MOST_REPETITIONS} are needed")
    found = sorted({bucket_hash.buckets for bucket_hash in hashes})
    if len(found) > 1:
        raise InputError(
            f"repetitions of {found} buckets: all need the same number; train them with one setting"
        )
    return tuple(hashes)
