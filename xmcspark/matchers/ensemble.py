"""Fusion of the predictions of several members (trees, repetitions, encoders) into one ranking: average
of scores, reciprocal rank, or average of scores normalised per row. The result does not depend on the
order of the members or on how rows are partitioned: sums are exact integers on a grid set per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.portable_math import exact_exp
from xmcspark.matchers.predictions import Predictions, row_blocks

_RANK_OFFSET = 60.0  # Cormack, Clarke and Büttcher 2009: 1 / (60 + rank)
_NO_LABEL = np.int64(2**31 - 1)
_METHODS = ("average", "rank", "normalised")
_NORMS = ("min-max", "softmax")


def fuse(
    members: Sequence[Predictions],
    method: str = "average",
    weights: Sequence[float] | None = None,
    top_k: int = 10,
    *,
    norm: str = "min-max",
    missing: float | None = None,
) -> Predictions:
    """The `top_k` labels of each row by the weighted mean of what the members give them.

    `average`: the scores themselves; a label that a member did not return counts as `missing` there (0 if
    not given, which suits probabilities only: negative scores are refused unless `missing` is given).
    `rank`: 1 / (60 + rank). `normalised`: scores mapped to 0..1 in each row of each member, by `norm`:
    `min-max` (all equal: 1) or `softmax`; a missing label counts as 0. Equal fused scores are
    ordered by label id.
    """
    shares = _checked(members, method, weights, top_k, norm, missing)
    total = np.sort(shares).sum()  # sorted: the same in any order of the members
    floor = missing if method == "average" and missing is not None else 0.0
    width = sum(member.k for member in members)
    out_width = min(top_k, width)
    labels = np.full((members[0].rows, out_width), -1, np.int32)
    scores = np.full((members[0].rows, out_width), -np.inf, np.float32)
    for start, stop in row_blocks(members[0].rows, width, cells=1 << 20):
        parts = [member.slice_rows(start, stop) for member in members]
        given = [
            _contributions(part, method, norm, floor) * share
            for part, share in zip(parts, shares, strict=True)
        ]
        all_labels = np.concatenate([part.labels for part in parts], axis=1)
        block = _best_sums(all_labels, np.concatenate(given, axis=1), len(members), out_width)
        labels[start:stop] = block[0]
        scores[start:stop] = block[1] / total + floor
    return Predictions(labels, scores)


def _checked(
    members: Sequence[Predictions],
    method: str,
    weights: Sequence[float] | None,
    top_k: int,
    norm: str,
    missing: float | None,
) -> np.ndarray:
    """The members' weights, once everything is known to fit together."""
    if not members:
        raise InputError("fuse: no members given; at least one is needed")
    if method not in _METHODS or norm not in _NORMS:
        raise InputError(f"fuse: method {method!r}, norm {norm!r}; known are {_METHODS} and {_NORMS}")
    if top_k < 1:
        raise InputError(f"fuse: top_k is {top_k}, but at least 1 is needed")
    if missing is not None and not np.isfinite(missing):
        raise InputError(f"fuse: missing is {missing}, but a finite score is needed")
    for index, member in enumerate(members):
        if member.rows != members[0].rows:
            raise InputError(f"fuse: member {index} has {member.rows} rows, member 0 has {members[0].rows}")
        member.check(name=f"fuse: member {index}")
        if method == "average" and missing is None and (member.scores[member.labels >= 0] < 0).any():
            raise InputError(
                f"fuse: member {index} has negative scores, where an average would rank a label that is "
                "missing (0) above one that is found; use method 'rank' or 'normalised', or give `missing`"
            )
    shares = np.ones(len(members)) if weights is None else np.asarray(weights, np.float64)
    if (
        shares.shape != (len(members),)
        or not np.isfinite(shares).all()
        or (shares < 0).any()
        or not shares.any()
    ):
        raise InputError(
            f"fuse: weights {weights} must be {len(members)} finite numbers, none negative, not all zero"
        )
    return shares


def _contributions(part: Predictions, method: str, norm: str, floor: float) -> np.ndarray:
    """What a member adds to each label it returned, float64 [rows, k], above what a missing one gets."""
    present = part.labels >= 0
    if method == "rank":
        return np.where(present, 1.0 / (_RANK_OFFSET + 1.0 + np.arange(part.k)), 0.0)
    scores = np.where(present, part.scores, 0.0).astype(np.float64)
    if method == "average":
        return np.where(present, scores - floor, 0.0)
    highest = np.where(present, scores, -np.inf).max(axis=1, initial=-np.inf, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    if norm == "softmax":
        powers = np.where(present, exact_exp(scores - highest), 0.0)
        shares: np.ndarray = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1.0)  # the best adds 1
        return shares
    lowest = np.where(present, scores, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    spread = highest - lowest
    level = np.where(spread > 0, (scores - lowest) / np.where(spread > 0, spread, 1.0), 1.0)
    return np.where(present, level, 0.0)


def _best_sums(
    labels: np.ndarray, values: np.ndarray, n_members: int, top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Per row, the sum of values by label; the `top_k` largest with their labels, padded."""
    rows, width = labels.shape
    place_bits = max(1, (width - 1).bit_length())
    grid_bits = 62 - place_bits - n_members.bit_length()  # sums and places share one int64
    # The grid follows the row's largest value only, so that a row's result is its own.
    exponent = np.frexp(np.abs(values).max(axis=1, keepdims=True))[1]
    on_grid = np.rint(np.ldexp(values, grid_bits - exponent)).astype(np.int64)

    keys = np.where(labels >= 0, labels, _NO_LABEL) << np.int64(32) | np.arange(width)
    keys.sort(axis=1)
    ordered = keys >> np.int64(32)
    on_grid = np.take_along_axis(on_grid, keys & np.int64(2**32 - 1), axis=1)
    first = np.ones((rows, width), bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(on_grid.ravel(), starts)

    # Places follow label ids, so equal sums come out by label.
    ranking = np.full(rows * width, np.iinfo(np.int64).max)
    ranking[starts] = np.where(
        ordered.ravel()[starts] == _NO_LABEL,
        np.iinfo(np.int64).max,
        (-sums << np.int64(place_bits)) | (starts % width),
    )
    best = np.sort(ranking.reshape(rows, width), axis=1)[:, :top_k]
    absent = best == np.iinfo(np.int64).max
    places = np.where(absent, 0, best & np.int64((1 << place_bits) - 1))
    best_labels = np.take_along_axis(ordered, places, axis=1)
    best_sums = np.ldexp((-(best >> np.int64(place_bits))).astype(np.float64), exponent - grid_bits)
    return np.where(absent, -1, best_labels), np.where(absent, -np.inf, best_sums)
