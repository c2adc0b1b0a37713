"""The sketch: R trained repetitions and the labels that can be recovered from them, opened from a folder (`<folder>/0`
to `<folder>/R-1` and `<folder>/labels`) or put together. Decides which repetitions belong together, and how a batch is
cut into blocks of rows, whose margins [rows, R, B] are all that is held at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from xmcspark._native.csr import first_bad_row
from xmcspark._native.sketch import transform
from xmcspark.errors import InputError
from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.recovery import Found, Recipe, Recovery
from xmcspark.mach.repetition import Part, Repetition, load_repetition
from xmcspark.mach.settings import MachSettings
from xmcspark.matchers.exclusion import rows_alike, without
from xmcspark.matchers.files import take_array
from xmcspark.matchers.predictions import Predictions, row_blocks
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import check_threads
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays, save_arrays

LABELS = "labels"  # the folder beside the repetitions
_KIND = "mach labels"
_VERSION = 1
_BLOCK_BYTES = 1 << 26  # of margins


class Sketch:
    """Finds the best labels of rows."""

    def __init__(
        self,
        repetitions: Sequence[Repetition],
        live: np.ndarray,
        settings: MachSettings | None = None,
        scoring: Scoring | None = None,
    ) -> None:
        """`live`: bool for each label id, whether it may be predicted. Of the settings, those of recovery count;
        `scoring` makes scores of margins (default: that of the settings)."""
        if not repetitions:
            raise InputError("a sketch has at least one repetition: train some")
        self.repetitions, self.live = tuple(repetitions), np.ascontiguousarray(live, bool)
        self.settings = settings or MachSettings()
        self.scoring = scoring or self.settings.scoring
        check_parts([repetition.part for repetition in self.repetitions], self.part, len(self.live))

    @property
    def part(self) -> Part:
        """That of the first repetition."""
        return self.repetitions[0].part

    @property
    def n_labels(self) -> int:
        return self.part.labels

    @property
    def n_features(self) -> int:
        return self.part.features

    @property
    def n_bytes(self) -> int:
        return sum(repetition.n_bytes for repetition in self.repetitions)

    @property
    def recipe(self) -> Recipe:
        """How labels are recovered from margins."""
        s = self.settings
        least = min(s.min_count, len(self.repetitions))
        method = cast(Literal["fast", "exact"], s.recovery)  # checked with the settings
        return Recipe(method, s.aggregate, s.top_buckets, least, self.scoring)

    @cached_property
    def recovery(self) -> Recovery:
        """Of all labels; its tables are made when first needed."""
        return Recovery(self._hashes, self.live)

    @property
    def _hashes(self) -> list[BucketHash]:
        return [repetition.part.bucket_hash for repetition in self.repetitions]

    def predict(
        self, X: Any, *, excluded: Csr | None = None, top_k: int = 10, threads: int = 1
    ) -> Predictions:
        """The `top_k` best labels of each row of X without those that `excluded` [rows, labels] holds for it. A row has
        fewer only if no more labels are live."""
        check_threads(threads)
        self._check_top_k(top_k)
        X = as_csr(X, "X", cols=self.n_features)
        if excluded is not None:
            excluded = as_csr(excluded, "excluded", rows=X.shape[0])
        blocks = self._blocks(X.shape[0], excluded, top_k)
        best: list[Found | None] = [None] * len(blocks)
        for recovery in self._recoveries(threads):
            for number, (rows, wanted) in enumerate(blocks):
                margins = self.margins(take_rows(X, rows), threads=threads)
                found, before = recovery.find(margins, self.recipe, wanted, threads), best[number]
                best[number] = found if before is None else Found.merged((before, found), wanted)
        labels = np.full((X.shape[0], top_k), -1, np.int32)
        scores = np.full((X.shape[0], top_k), -np.inf, np.float32)
        for (rows, _), found_in_all in zip(blocks, best, strict=True):
            assert found_in_all is not None
            kept = found_in_all.predictions
            if excluded is not None:
                kept = without(kept, take_rows(excluded, rows), top_k)
            labels[rows], scores[rows] = kept.labels, kept.scores
        return Predictions(labels, scores)

    def predict_one(self, features: np.ndarray, values: np.ndarray, *, top_k: int = 10) -> Predictions:
        """As `predict` for one query, given as increasing int32 features and float32 values. With `labels_at_once`
        each query makes the tables of all ranges anew: memory has its price."""
        self._check_top_k(top_k)
        features, values = np.ascontiguousarray(features, np.int32), np.ascontiguousarray(values, np.float32)
        indptr = np.array([0, len(features)])
        if len(features) != len(values) or first_bad_row(indptr, features, values, self.n_features):
            raise InputError(
                f"a query is features in increasing order, from 0 to {self.n_features - 1}, and a finite value for each"
            )
        margins = self.margins(Csr(indptr, features, values, (1, self.n_features)))
        found = (recovery.find(margins, self.recipe, top_k) for recovery in self._recoveries(threads=1))
        return reduce(lambda one, other: Found.merged((one, other), top_k), found).predictions

    def margins(self, X: Csr, *, threads: int = 1) -> np.ndarray:
        """float32 [rows, R, B]: what each repetition says of each bucket. Of all rows at once: give it a few."""
        found = np.empty((X.shape[0], len(self.repetitions), self.part.buckets), np.float32)
        for number, repetition in enumerate(self.repetitions):
            repetition.margins(X, threads, found[:, number])
        return found

    def probabilities(self, X: Csr, *, threads: int = 1) -> np.ndarray:
        """The margins as the scoring makes scores of them."""
        found = self.margins(X, threads=threads)
        transform(found.reshape(-1, self.part.buckets), *self.scoring.kernel_form, threads)
        return found

    def _recoveries(self, threads: int) -> Iterator[Recovery]:
        """Of all labels, or of one range of labels after the other."""
        at_once = self.settings.labels_at_once
        if not 0 < at_once < self.n_labels:
            yield self.recovery
            return
        for first in range(0, self.n_labels, at_once):
            last = min(first + at_once, self.n_labels)
            yield Recovery(self._hashes, self.live, first=first, last=last, threads=threads)

    def _blocks(self, rows: int, excluded: Csr | None, top_k: int) -> list[tuple[np.ndarray, int]]:
        """(rows, labels to find for them): as many more as a row has exclusions, about."""
        counts = np.zeros(rows, np.int64) if excluded is None else np.diff(excluded.indptr)
        cells, blocks = len(self.repetitions) * self.part.buckets, []
        for alike, more in rows_alike(counts):
            wanted = min(top_k + more, self.n_labels)
            for start, stop in row_blocks(len(alike), max(cells, wanted), _BLOCK_BYTES // 4):
                blocks.append((alike[start:stop], wanted))
        return blocks

    def _check_top_k(self, top_k: int) -> None:
        if not 1 <= top_k <= self.n_labels:
            raise InputError(
                f"top_k is {top_k} with {self.n_labels} labels: ask for at least 1 and at most all of them"
            )

    def save(self, folder: str | Path) -> None:
        """Writes repetitions, then labels: what has labels is complete."""
        for repetition in self.repetitions:
            repetition.save(Path(folder) / str(repetition.part.repetition))
        save_labels(folder, self.live, self.part, len(self.repetitions))

    @staticmethod
    def load(
        folder: str | Path, settings: MachSettings | None = None, scoring: Scoring | None = None
    ) -> Sketch:
        """Maps the repetitions of a folder into memory; InputError names the one that is missing or is of another
        sketch."""
        live, whole, count = load_labels(folder)
        repetitions = []
        for number in range(count):
            path = Path(folder) / str(number)
            if not path.exists():
                raise InputError(
                    f"{path} is missing: the sketch has {count} repetitions; train it, or copy it again"
                )
            repetitions.append(load_repetition(path))
        try:
            check_parts([repetition.part for repetition in repetitions], whole, len(live))
        except InputError as error:
            raise InputError(f"{folder}: {error}") from error
        return Sketch(repetitions, live, settings, scoring)


def check_parts(parts: Sequence[Part], whole: Part, labels: int) -> None:
    """That these are repetitions 0, 1, ... of the sketch that `whole` is of, which has so many labels."""
    if whole.labels != labels:
        raise InputError(
            f"{labels} labels are marked as live or not, but the repetitions hash {whole.labels}: they must be of one "
            "training"
        )
    for number, part in enumerate(parts):
        if part.repetition != number:
            raise InputError(
                f"in the place of repetition {number} there is repetition {part.repetition}: put each into its folder, "
                "or train again"
            )
        if difference := part.disagreement(whole):
            raise InputError(f"repetition {number} has {difference} as the sketch has: train it again")


def save_labels(folder: str | Path, live: np.ndarray, part: Part, repetitions: int) -> None:
    """Writes which labels are live, and of which sketch: that of any of its repetitions."""
    whole = {name: value for name, value in asdict(part).items() if name != "repetition"}
    arrays = {"live": np.packbits(np.asarray(live, bool))}
    save_arrays(Path(folder) / LABELS, _KIND, _VERSION, {**whole, "repetitions": repetitions}, arrays)


def load_labels(folder: str | Path) -> tuple[np.ndarray, Part, int]:
    """(live, the sketch's part with the number 0, number of repetitions) of what `save_labels` wrote."""
    path = Path(folder) / LABELS
    header, arrays = load_arrays(path, _KIND, _VERSION)
    try:
        names = [field.name for field in fields(Part) if field.name != "repetition"]
        part = Part(0, **{name: int(header[name]) for name in names})
        repetitions = int(header["repetitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: its header is not that of {_KIND}: {error}") from error
    packed = take_array(path, arrays, "live")
    if packed.dtype != np.uint8 or packed.shape != (-(-part.labels // 8),) or repetitions < 1:
        raise InputError(f"{path}: its bits are not those of {part.labels} labels; copy or save it again")
    return np.unpackbits(packed, count=part.labels).astype(bool), part, repetitions
