"""The one form of ranked predictions: two dense arrays, best label first, padded with label -1 and score
-inf where a row has fewer. Decides the order of ties (higher score, then lower label id) and what counts
as a well-formed prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr, as_csr

# Cells looked at together: temporary arrays stay in the megabytes whatever the number of rows.
_BLOCK_CELLS = 1 << 22
_PADDING = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Predictions:
    """Ranked labels of each row. Construction checks types and shapes; `check` looks at every value."""

    labels: np.ndarray  # int32 [rows, k], best first; -1 where there are fewer than k
    scores: np.ndarray  # float32 [rows, k]; -inf where labels are -1

    def __post_init__(self) -> None:
        labels, scores = np.asarray(self.labels), np.asarray(self.scores)
        if labels.ndim != 2 or labels.shape != scores.shape:
            raise InputError(
                f"predictions: labels {labels.shape} and scores {scores.shape} must both be [rows, k]"
            )
        if labels.dtype.kind not in "iu" or scores.dtype.kind not in "fiu":
            raise InputError(
                f"predictions: labels are {labels.dtype} and scores {scores.dtype}; integers and numbers "
                "are needed"
            )
        if labels.dtype != np.int32 and labels.size and (labels.min() < -1 or labels.max() >= 2**31 - 1):
            raise InputError("predictions: a label is outside 0..2^31 - 2 (or -1 for none)")
        if scores.dtype != np.float32:
            with np.errstate(over="ignore"):  # too large becomes infinite, which `check` names
                scores = scores.astype(np.float32)
        object.__setattr__(self, "labels", np.ascontiguousarray(labels, np.int32))
        object.__setattr__(self, "scores", np.ascontiguousarray(scores))

    @property
    def rows(self) -> int:
        return int(self.labels.shape[0])

    @property
    def k(self) -> int:
        return int(self.labels.shape[1])

    def check(self, n_labels: int | None = None, name: str = "predictions") -> Predictions:
        """Self, if every row is well formed; an InputError that names the first bad row otherwise."""
        limit = 2**31 - 2 if n_labels is None else n_labels - 1
        for start, stop in row_blocks(self.rows, self.k):
            labels, scores = self.labels[start:stop], self.scores[start:stop]
            padding = labels == -1
            problems = {
                f"has a label outside 0..{limit} (or -1 for none)": (labels < -1) | (labels > limit),
                "has a score that is NaN or infinite": ~(np.isfinite(scores) | padding),
                "has a padding label (-1) whose score is not -inf": padding & (scores != -np.inf),
                "has a label after padding (-1)": padding[:, :-1] & ~padding[:, 1:],
                "has a score above the one before it: order the row with Predictions.ranked": (
                    scores[:, 1:] > scores[:, :-1]
                ),
            }
            ordered = np.sort(labels, axis=1)
            problems["has the same label twice"] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
            for problem, bad in problems.items():
                if bad.any():
                    raise InputError(f"{name}, row {start + int(bad.any(axis=1).argmax())}: {problem}")
        return self

    def top(self, k: int) -> Predictions:
        """The best k of each row (all, if there are no more than k)."""
        if k < 1:
            raise InputError(f"top: k is {k}, but at least 1 is needed")
        return self if k >= self.k else Predictions(self.labels[:, :k], self.scores[:, :k])

    def slice_rows(self, start: int, stop: int) -> Predictions:
        return Predictions(self.labels[start:stop], self.scores[start:stop])

    @staticmethod
    def ranked(labels: np.ndarray, scores: np.ndarray, k: int | None = None) -> Predictions:
        """Rows given in any order, put in order: higher score first, equal scores by lower label id."""
        given = Predictions(labels, scores)
        if np.isnan(given.scores).any():
            raise InputError("predictions: NaN cannot be ranked; remove it or give it a score")
        width = given.k if k is None else min(k, given.k)
        ranked_labels = np.empty((given.rows, width), np.int32)
        ranked_scores = np.empty((given.rows, width), np.float32)
        for start, stop in row_blocks(given.rows, given.k):
            keys = np.sort(_rank_keys(given.labels[start:stop], given.scores[start:stop]), axis=1)[:, :width]
            ranked_labels[start:stop], ranked_scores[start:stop] = _from_rank_keys(keys)
        return Predictions(ranked_labels, ranked_scores)

    @staticmethod
    def from_csr(matrix: Any, k: int) -> Predictions:
        """The k best stored entries of each row of a matrix of scores [rows, labels]."""
        if k < 1:
            raise InputError(f"from_csr: k is {k}, but at least 1 is needed")
        given = as_csr(matrix, "scores")
        lengths = np.diff(given.indptr)
        width = min(k, int(lengths.max(initial=1)))
        keys = _rank_keys(given.indices, given.data)
        best = np.full((given.shape[0], width), _PADDING)
        # Rows of like length are sorted together, so that padding at most doubles the work.
        magnitude = np.frexp(lengths.astype(np.float64))[1]
        for size in np.unique(magnitude[lengths > 0]):
            rows = np.flatnonzero((magnitude == size) & (lengths > 0))
            span = int(lengths[rows].max())
            for start, stop in row_blocks(len(rows), span):
                some = rows[start:stop]
                cells = given.indptr[some][:, None] + np.arange(span)
                inside = np.arange(span) < lengths[some][:, None]
                block = np.where(inside, keys[np.where(inside, cells, 0)], _PADDING)
                block.sort(axis=1)
                best[some, : min(width, span)] = block[:, :width]
        return Predictions(*_from_rank_keys(best))

    def to_csr(self, n_labels: int) -> Csr:
        """The scores as a matrix [rows, n_labels]; the order is that of the scores and is not kept apart."""
        self.check(n_labels)
        present = self.labels >= 0
        order = np.argsort(np.where(present, self.labels, 2**31 - 1), axis=1, kind="stable")
        kept = np.take_along_axis(present, order, axis=1)
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int64)
        return Csr(
            indptr,
            np.ascontiguousarray(np.take_along_axis(self.labels, order, axis=1)[kept]),
            np.ascontiguousarray(np.take_along_axis(self.scores, order, axis=1)[kept]),
            (self.rows, n_labels),
        )

    def positions_of(self, matrix: Csr) -> np.ndarray:
        """Of each stored entry (row, label) of `matrix`, the label's place in the row's ranking, or -1."""
        if matrix.shape[0] != self.rows:
            raise InputError(
                f"predictions have {self.rows} rows, the labels {matrix.shape[0]}: they must agree"
            )
        row_of = np.repeat(np.arange(self.rows), np.diff(matrix.indptr))
        positions = np.full(matrix.nnz, -1, np.int32)
        for start, stop in row_blocks(matrix.nnz, self.k):
            match = self.labels[row_of[start:stop]] == matrix.indices[start:stop, None]
            found = match.argmax(axis=1)
            hit = match[np.arange(stop - start), found]
            positions[start:stop][hit] = found[hit]
        return positions

    def exclude(self, excluded: Any) -> Predictions:
        """Without the labels that `excluded` [rows, labels] holds for their row; the rest keep their order.

        The width stays k, so rows that lose labels end in padding: predict a few more than needed.
        """
        matrix = as_csr(excluded, "exclude", rows=self.rows)
        positions = self.positions_of(matrix)
        hit = (positions >= 0) & (matrix.data != 0)
        drop = np.zeros(self.labels.shape, bool)
        drop[np.repeat(np.arange(self.rows), np.diff(matrix.indptr))[hit], positions[hit]] = True
        kept = (self.labels >= 0) & ~drop
        filled = np.arange(self.k) < kept.sum(axis=1)[:, None]
        labels, scores = np.full_like(self.labels, -1), np.full_like(self.scores, -np.inf)
        labels[filled], scores[filled] = self.labels[kept], self.scores[kept]  # both run row by row
        return Predictions(labels, scores)


def row_blocks(rows: int, width: int, cells: int = _BLOCK_CELLS) -> list[tuple[int, int]]:
    """Ranges of rows of a [rows, width] array that hold about `cells` cells each; none if it is empty."""
    if width == 0:
        return []
    step = max(1, cells // width)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def _rank_keys(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """One uint64 per prediction whose increasing order is the ranking: score falling, then label rising."""
    bits = np.ascontiguousarray(scores + np.float32(0.0)).view(np.uint32)  # -0.0 becomes 0.0
    rising = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return ((~rising).astype(np.uint64) << np.uint64(32)) | labels.astype(np.uint32)


def _from_rank_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels = keys.astype(np.uint32).view(np.int32)
    rising = ~(keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(rising >> 31, rising & np.uint32(2**31 - 1), ~rising)
    return labels, np.where(labels == -1, np.float32(-np.inf), bits.view(np.float32))
