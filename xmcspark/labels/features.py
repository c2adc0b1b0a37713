"""Label features: what a label looks like as a vector. From its positive instances (PIFA, paper 1, eq. 1),
from its own text, or from both, side by side or mixed. Rows have length 1; a label about which nothing is
known has an empty row."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.labels.label_sums import pifa_grid
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.spgemm import Cut, multiply, normalised, row_sums

log = logging.getLogger(__name__)


class Vectorizer(Protocol):
    """What turns texts into rows of features, such as `xmcspark.text.Tfidf`."""

    def transform(self, texts: Any) -> sp.csr_matrix: ...


def pifa(
    X: Any, Y: Any, *, threads: int = 1, max_features: int | None = None, grid: float | None = None
) -> sp.csr_matrix:
    """Z (labels × features): z_l = v_l / ‖v_l‖ with v = Yᵀ X (paper 1, eq. 1).

    Y may hold relevances instead of ones. A label without positives has an empty row. Columns of a dense block of X
    are columns of Z like all others. `max_features` keeps the weights of each label that are largest in absolute value
    (of equal ones, the lower features); what that cut is logged, and returned by `pifa_and_cut`. Products are rounded
    to `grid` (default: `pifa_grid`), so that partitions of the instances can be summed to the same bits.
    """
    Z, cut = pifa_and_cut(X, Y, threads=threads, max_features=max_features, grid=grid)
    if cut.rows:
        log.info("max_features=%d cut %d weights of %d labels", max_features, cut.entries, cut.rows)
    return Z.to_scipy()


def pifa_and_cut(
    X: Any, Y: Any, *, threads: int = 1, max_features: int | None = None, grid: float | None = None
) -> tuple[Csr, Cut]:
    """`pifa` as a checked matrix, and how much `max_features` removed."""
    x = as_csr(X, "X", dense="expand")
    y = as_csr(Y, "Y", rows=x.shape[0])
    if grid is None:
        grid = pifa_grid(x, y)
    return multiply(y.transpose(), x, threads=threads, grid=grid, normalise=True, max_features=max_features)


def label_text_features(texts: Any, tfidf: Vectorizer, *, threads: int = 1) -> sp.csr_matrix:
    """Z from the labels' own texts, one row of length 1 for each text."""
    return normalised(as_csr(tfidf.transform(texts), "label texts"), threads=threads).to_scipy()


def concatenate(
    features: Sequence[Any], weights: Sequence[float] | None = None, *, threads: int = 1
) -> sp.csr_matrix:
    """[w₁ Z₁, w₂ Z₂, …] side by side, rows renormalised: each block keeps its own feature space."""
    blocks = _same_labels(features)
    offsets = np.cumsum([0] + [block.shape[1] for block in blocks])
    if offsets[-1] >= 2**31:
        raise InputError(f"the blocks have {offsets[-1]} features together: at most 2^31 - 1 are supported")
    weights = [1.0] * len(blocks) if weights is None else weights
    return _weighted_sum(blocks, weights, offsets[:-1], int(offsets[-1]), threads).to_scipy()


def combine(Z1: Any, Z2: Any, weight: float, *, threads: int = 1) -> sp.csr_matrix:
    """weight · Z1 + (1 - weight) · Z2 in one feature space, rows renormalised.

    A label known to only one of the two keeps that one's direction.
    """
    if not 0.0 <= weight <= 1.0:
        raise InputError(f"weight is {weight}: a convex combination needs one between 0 and 1")
    blocks = _same_labels([Z1, Z2])
    if blocks[0].shape[1] != blocks[1].shape[1]:
        raise InputError(
            f"Z1 has {blocks[0].shape[1]} features and Z2 has {blocks[1].shape[1]}: a combination needs one "
            "feature space (use concatenate for two)"
        )
    weights, cols = [weight, 1.0 - weight], blocks[0].shape[1]
    return _weighted_sum(blocks, weights, np.zeros(2, np.int64), cols, threads).to_scipy()


def _same_labels(features: Sequence[Any]) -> list[Csr]:
    if not features:
        raise InputError("no label features given: at least one matrix is needed")
    first = as_csr(features[0], "Z1", dense="expand")
    rest = [
        as_csr(Z, f"Z{i}", rows=first.shape[0], dense="expand") for i, Z in enumerate(features[1:], start=2)
    ]
    return [first, *rest]


def _weighted_sum(
    blocks: list[Csr], weights: Sequence[float], offsets: np.ndarray, cols: int, threads: int
) -> Csr:
    """Σ wᵢ Zᵢ, the columns of Zᵢ moved by offsetsᵢ, rows normalised: a product whose left side picks, for
    each label, its row of every block. Blocks of weight 0 leave no entries."""
    if len(weights) != len(blocks) or not all(0.0 <= w < float("inf") for w in weights):
        raise InputError(
            f"weights are {list(weights)}: {len(blocks)} numbers that are not negative are needed"
        )
    used = [i for i, w in enumerate(weights) if w > 0.0]
    if not used:
        raise InputError("all weights are 0: at least one block must count")
    n = blocks[0].shape[0]
    counts = np.concatenate([np.diff(blocks[i].indptr) for i in used])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    indices = np.concatenate([blocks[i].indices + np.int32(offsets[i]) for i in used])
    data = np.concatenate([blocks[i].data for i in used])
    picks = (np.arange(n)[:, None] + n * np.arange(len(used))).ravel()
    selector = Csr(
        np.arange(n + 1, dtype=np.int64) * len(used),
        picks.astype(np.int32),
        np.tile(np.array([weights[i] for i in used], np.float32), n),
        (n, n * len(used)),
    )
    rows, _ = row_sums(selector, (indptr, indices, data), cols, normalise=True, threads=threads)
    return Csr(*rows, (n, cols))
