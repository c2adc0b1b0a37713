"""MixUp and Label-MixUp, the conventional augmentations that paper 5 compares with (table 1.6): λ of one row and 1 - λ
of another, features and targets alike. Decides which rows are mixed and by how much, from seeds and row keys only."""

from __future__ import annotations

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams, uniform
from xmcspark.matchers.portable_math import exact_exp, exact_log
from xmcspark.matchers.targets import nonzero
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.spgemm import row_sums


def mixing_shares(row_keys: np.ndarray, alpha: float, seed: int) -> np.ndarray:
    """float32: λ of each row, from Beta(alpha, alpha).

    Jöhnk's method: u^(1/α) / (u^(1/α) + v^(1/α)) of the first pair of draws for which the denominator is at most 1.
    """
    stream = streams(seed, "share of a mixture", row_keys)
    shares, open_rows, attempt = np.empty(len(row_keys)), np.arange(len(row_keys)), 0
    while len(open_rows):
        u, v = (
            exact_log(uniform(stream[open_rows], 2 * attempt + side) + 2.0**-54) / alpha for side in (0, 1)
        )
        good = exact_exp(u) + exact_exp(v) <= 1.0
        shares[open_rows[good]] = 1.0 / (1.0 + exact_exp(v[good] - u[good]))
        open_rows, attempt = open_rows[~good], attempt + 1
    return shares.astype(np.float32)


def mixup_group(row_keys: np.ndarray, groups: int, seed: int) -> np.ndarray:
    """int64: the group in which each row finds its partner. `groups` must follow from the number of all rows, never
    from how they are spread."""
    return (uniform(streams(seed, "group of a mixture", row_keys)) * groups).astype(np.int64)


def mixup_partners(row_keys: np.ndarray, seed: int) -> np.ndarray:
    """int64: for the rows of one whole group, the place of each one's partner: the next in the order of hashes, the
    first for the last. A row that is alone in its group is its own partner."""
    order = np.lexsort((row_keys, hashed(streams(seed, "partner in a mixture", row_keys), 0)))
    partners = np.empty(len(order), np.int64)
    partners[order] = np.roll(order, -1)
    return partners


def label_partners(Y: Csr, row_keys: np.ndarray, seed: int) -> np.ndarray:
    """int32: one label of each row, whose text it is mixed with; -1 for a row without. Leave labels without a text
    out of Y."""
    lengths = np.diff(Y.indptr)
    if len(row_keys) != len(lengths):
        raise InputError(f"there are {len(row_keys)} row keys for {len(lengths)} rows: one each is needed")
    place = (uniform(streams(seed, "label of a mixture", row_keys)) * lengths).astype(np.int64)
    partners = np.full(len(lengths), -1, np.int32)
    some = lengths > 0
    partners[some] = Y.indices[(Y.indptr[:-1] + place)[some]]
    return partners


def mixed_rows(X1: Csr, X2: Csr, shares: np.ndarray) -> Csr:
    """λ x₁ + (1 - λ) x₂, row by row; rows are not normalised again."""
    X1 = as_csr(X1, "the rows to mix")
    as_csr(X2, "the rows to mix with", rows=X1.shape[0], cols=X1.shape[1])
    if len(shares) != X1.shape[0]:
        raise InputError(f"there are {len(shares)} shares for {X1.shape[0]} rows: one each is needed")
    n = X1.shape[0]
    both = np.stack([np.arange(n), n + np.arange(n)], axis=1)
    weights = np.stack([shares, 1.0 - shares], axis=1).astype(np.float32)
    selector = Csr(
        2 * np.arange(n + 1, dtype=np.int64), both.astype(np.int32).ravel(), weights.ravel(), (n, 2 * n)
    )
    rows = (
        np.concatenate([X1.indptr, X1.indptr[-1] + X2.indptr[1:]]),
        np.concatenate([X1.indices, X2.indices]),
        np.concatenate([X1.data, X2.data]),
    )
    mixed, _ = row_sums(selector, rows, X1.shape[1])
    return Csr(*mixed, X1.shape)


def mixed_targets(Y1: Csr, Y2: Csr, shares: np.ndarray) -> Csr:
    """The same of targets: none above 1, none of 0."""
    mixed = mixed_rows(Y1, Y2, shares)
    return nonzero(Csr(mixed.indptr, mixed.indices, np.minimum(mixed.data, np.float32(1)), mixed.shape))
