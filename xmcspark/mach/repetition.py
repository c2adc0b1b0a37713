"""A trained repetition: what it is one of, its classifier of buckets, and its folder of arrays, mapped when opened.
Decides how a row's margins are computed: so that they are the same bits alone or in any batch, on any machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from xmcspark._native.sketch import margins
from xmcspark.errors import InputError
from xmcspark.mach.feature_hashing import hashed_rows
from xmcspark.mach.hashing import BucketHash
from xmcspark.matchers.files import take_array
from xmcspark.matchers.model import Matchers
from xmcspark.matchers.portable_math import exact_exp, exact_log
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.store.arrays import load_arrays, save_arrays

KIND = "mach repetition"
VERSION = 1
_LINEAR_ARRAYS = ("indptr", "buckets", "values", "bias")
_MLP_ARRAYS = ("embedding", "hidden_bias", "output", "bias")

# Products of a weight and an input are whole multiples of a power of two, and their sums stay below 2^53 of these:
# exact in float64, in whatever order they are added. Weights have 21 bits, an input what is left.
_WEIGHT_BITS = 20
_SUM_BITS = 53
_GATHERED_BYTES = 1 << 26  # of embedding rows at a time


@dataclass(frozen=True)
class Part:
    """Which repetition of which sketch: all its repetitions agree in everything but their number."""

    repetition: int  # from 0
    seed: int
    buckets: int
    labels: int  # ids below this are hashed
    features: int  # columns of X
    hashed_features: int = 0  # columns after hashing; 0: X as it is

    def __post_init__(self) -> None:
        if self.repetition < 0 or self.buckets < 2 or self.labels < 1 or self.features < 0:
            raise InputError(
                f"{self}: a repetition counts from 0, has at least 2 buckets and at least 1 label; train it again"
            )

    @property
    def bucket_hash(self) -> BucketHash:
        return BucketHash(self.buckets, self.seed, self.repetition)

    @property
    def columns(self) -> int:
        """Columns that the classifier sees."""
        return self.hashed_features or self.features

    def inputs(self, X: Csr) -> Csr:
        """X as the classifier sees it."""
        X = as_csr(X, "X", cols=self.features)
        if not self.hashed_features:
            return X
        return hashed_rows(X, self.hashed_features, self.seed, self.repetition)

    def disagreement(self, other: Part) -> str | None:
        """What keeps two repetitions from being of one sketch."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if field.name != "repetition" and mine != theirs:
                return f"{field.name} {mine} and not {theirs}"
        return None


class Repetition(Protocol):
    """A classifier of buckets."""

    learner: ClassVar[str]

    @property
    def part(self) -> Part: ...

    @property
    def n_bytes(self) -> int:
        """Of its arrays."""

    def margins(self, X: Csr, threads: int = 1, out: np.ndarray | None = None) -> np.ndarray:
        """float32 [rows, B], in `out` where given: how much each row is of each bucket. Rows without features have the
        biases."""

    def save(self, folder: str | Path) -> None: ...


@dataclass(frozen=True)
class LinearRepetition:
    """A linear matcher for each bucket, kept by feature: the buckets that a feature has a weight for."""

    learner: ClassVar[str] = "linear"

    part: Part
    indptr: np.ndarray  # int64 [columns + 1]
    buckets: np.ndarray  # uint16 if they fit, else int32
    values: np.ndarray  # float32
    bias: np.ndarray  # float32 [B]

    def __post_init__(self) -> None:
        fits = (
            [a.dtype.str for a in (self.indptr, self.values, self.bias)] == ["<i8", "<f4", "<f4"]
            and self.buckets.dtype == _bucket_type(self.part.buckets)
            and self.indptr.shape == (self.part.columns + 1,)
            and self.values.shape == self.buckets.shape == (int(self.indptr[-1]),)
            and self.bias.shape == (self.part.buckets,)
        )
        if not fits:
            raise InputError(
                f"the arrays of repetition {self.part.repetition} do not fit together; copy or train it again"
            )

    @staticmethod
    def of(part: Part, matchers: Matchers) -> LinearRepetition:
        """From the matchers of the buckets, one a row."""
        by_feature = matchers.weights.transpose()
        buckets = by_feature.indices.astype(_bucket_type(part.buckets))
        return LinearRepetition(part, by_feature.indptr, buckets, by_feature.data, matchers.bias)

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in (self.indptr, self.buckets, self.values, self.bias))

    @property
    def n_weights(self) -> int:
        return len(self.values)

    def margins(self, X: Csr, threads: int = 1, out: np.ndarray | None = None) -> np.ndarray:
        X = self.part.inputs(X)
        try:
            return margins(X, self.indptr, self.buckets, self.values, self.bias, threads, out)
        except ValueError as error:  # what lies inside the arrays is looked at on the way
            raise InputError(f"repetition {self.part.repetition}: {error}") from error

    def save(self, folder: str | Path) -> None:
        arrays = {name: getattr(self, name) for name in _LINEAR_ARRAYS}
        save_arrays(Path(folder), KIND, VERSION, _header(self), arrays)


@dataclass(frozen=True)
class MlpRepetition:
    """One hidden layer: relu(X E + e) W + w. Margins are log-odds; with `softmax`, of a bucket's share among all."""

    learner: ClassVar[str] = "mlp"

    part: Part
    embedding: np.ndarray  # E, float32 [columns, hidden], on a grid
    hidden_bias: np.ndarray  # e, float32 [hidden]
    output: np.ndarray  # W, float32 [hidden, B], on a grid
    bias: np.ndarray  # w, float32 [B]
    softmax: bool

    def __post_init__(self) -> None:
        hidden = self.hidden_bias.shape[0] if self.hidden_bias.ndim == 1 else -1
        found = [(a.dtype.str, a.shape) for a in (self.embedding, self.output, self.bias)]
        shapes = ((self.part.columns, hidden), (hidden, self.part.buckets), (self.part.buckets,))
        if self.hidden_bias.dtype.str != "<f4" or found != [("<f4", shape) for shape in shapes]:
            raise InputError(
                f"the arrays of repetition {self.part.repetition} do not fit together; copy or train it again"
            )

    @staticmethod
    def of(
        part: Part,
        embedding: np.ndarray,
        hidden_bias: np.ndarray,
        output: np.ndarray,
        bias: np.ndarray,
        softmax: bool,
    ) -> MlpRepetition:
        """From trained weights, which are rounded to a grid each: see `_WEIGHT_BITS`."""
        grids = (_on_grid(w, np.abs(w).max(initial=0.0), _WEIGHT_BITS) for w in (embedding, output))
        E, W = (np.asarray(grid, np.float32) for grid in grids)
        return MlpRepetition(part, E, hidden_bias, W, bias, softmax)

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in (self.embedding, self.hidden_bias, self.output, self.bias))

    def margins(self, X: Csr, threads: int = 1, out: np.ndarray | None = None) -> np.ndarray:
        X = self.part.inputs(X)
        scores = np.empty((X.shape[0], self.part.buckets), np.float32) if out is None else out
        width = self.embedding.shape[1]
        most = max(1, _GATHERED_BYTES // (8 * max(width, self.part.buckets)))  # entries, and rows, of a block
        start = 0
        while start < X.shape[0]:
            within = int(np.searchsorted(X.indptr, X.indptr[start] + most, side="right")) - 1
            stop = min(max(start + 1, within), start + most, X.shape[0])
            scores[start:stop] = self._block(X, start, stop)
            start = stop
        return scores

    def _block(self, X: Csr, start: int, stop: int) -> np.ndarray:
        """Margins of some rows."""
        hidden = np.maximum(self._hidden(X, start, stop) + self.hidden_bias, 0.0)
        exact = _rows_on_grid(hidden, _SUM_BITS - _WEIGHT_BITS - _bits(hidden.shape[1]))
        z = exact @ self._output + self.bias
        return _log_odds_of_shares(z) if self.softmax else z

    def _hidden(self, X: Csr, start: int, stop: int) -> np.ndarray:
        """X E in float64, exact but for the rounding of X."""
        ptr = X.indptr[start : stop + 1] - X.indptr[start]
        features, data = (
            array[X.indptr[start] : X.indptr[stop]].astype(dtype)
            for array, dtype in ((X.indices, np.int64), (X.data, np.float64))
        )
        lengths = np.diff(ptr)
        found = np.zeros((stop - start, self.embedding.shape[1]))
        some = np.flatnonzero(lengths)
        if not len(some):
            return found
        begins = ptr[some]
        top = np.maximum.reduceat(np.abs(data), begins)
        bits = _SUM_BITS - _WEIGHT_BITS - np.frexp(lengths[some].astype(np.float64))[1]
        exact = _on_grid(data, np.repeat(top, lengths[some]), np.repeat(bits, lengths[some]))
        weighted = self.embedding[features] * exact[:, None]
        found[some] = np.add.reduceat(weighted, begins, axis=0)
        return found

    @cached_property
    def _output(self) -> np.ndarray:
        return self.output.astype(np.float64)

    def save(self, folder: str | Path) -> None:
        arrays = {name: getattr(self, name) for name in _MLP_ARRAYS}
        save_arrays(Path(folder), KIND, VERSION, {**_header(self), "softmax": self.softmax}, arrays)


def load_repetition(folder: str | Path) -> LinearRepetition | MlpRepetition:
    """Opens what `save` wrote; InputError if it is something else, or damaged."""
    header, arrays = load_arrays(Path(folder), KIND, VERSION)
    try:
        part = Part(**{field.name: int(header[field.name]) for field in fields(Part)})
        learner, softmax = str(header["learner"]), bool(header.get("softmax", False))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: its header is not that of a {KIND}: {error}") from error
    names = {LinearRepetition.learner: _LINEAR_ARRAYS, MlpRepetition.learner: _MLP_ARRAYS}.get(learner)
    if names is None:
        raise InputError(
            f"{folder}: its learner is {learner!r}, which this release does not know: train it again"
        )
    taken = {name: take_array(folder, arrays, name) for name in names}
    try:
        if learner == LinearRepetition.learner:
            return LinearRepetition(part, **taken)
        return MlpRepetition(part, **taken, softmax=softmax)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def _header(repetition: Repetition) -> dict[str, object]:
    return {**asdict(repetition.part), "learner": repetition.learner}


def _bucket_type(buckets: int) -> np.dtype:
    return np.dtype(np.uint16 if buckets <= 2**16 else np.int32)


def _bits(count: int) -> int:
    """Bits that a sum of so many numbers may be longer than each of them."""
    return int(count).bit_length()


def _on_grid(values: np.ndarray, top: np.ndarray | float, bits: np.ndarray | int) -> np.ndarray:
    """Values of no more than `top`, in float64, rounded to multiples of a power of two, 2^bits of which reach it."""
    step = np.ldexp(1.0, np.frexp(np.asarray(top, np.float64))[1] - bits)
    rounded: np.ndarray = np.rint(np.asarray(values, np.float64) / step) * step
    return rounded


def _rows_on_grid(values: np.ndarray, bits: int) -> np.ndarray:
    return _on_grid(values, np.abs(values).max(axis=1, initial=0.0)[:, None], bits)


def _log_odds_of_shares(z: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)) of the softmax p of each row."""
    best = z.max(axis=1, keepdims=True)
    shares = exact_exp(z - best)
    total = np.add.accumulate(shares, axis=1)[:, -1:]  # in this order on any machine, unlike a sum
    others = np.maximum(total - shares, np.finfo(np.float64).tiny)
    log_odds: np.ndarray = (z - best) - exact_log(others)
    return log_odds
