"""Why a text gets a label: what every feature adds to the margin of every matcher on the label's path, read from the
packed model. Additions are those of the search, in its order and precision, so the sums are its margins to the bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.search import PackedLevel, Searcher
from xmcspark.tree.units import node_starts

_LAST = 1 << 31  # marks the last entry of a feature (native/packed.h)
_DAMAGED = "the packed model is damaged: copy or save it again"


class Term(NamedTuple):
    """A feature that the text and a matcher both have."""

    feature: int
    value: float  # in the text
    weight: float  # in the matcher
    contribution: float  # value * weight


class Step(NamedTuple):
    """A matcher on the path: the one that scores `child` among the children of `node`, named as in the tables."""

    level: int
    node: int
    child: int
    is_label: bool
    bias: float
    terms: list[Term]
    margin: float  # bias and contributions, added up


def path_steps(searcher: Searcher, features: np.ndarray, values: np.ndarray, label: int) -> list[Step]:
    """The matchers from the root to a label with what a text adds to each."""
    tree, starts = searcher.tree, node_starts(searcher.tree)
    known = 0 <= label < len(tree.position_of_label)
    position = int(tree.position_of_label[label]) if known else -1
    if position < 0:
        raise InputError(f"label {label} is not in the model: it had no training instances, or is not active")
    steps: list[Step] = []
    child = position
    for level in reversed(range(tree.depth)):
        ptr = tree.child_ptr[level]
        node = int(np.searchsorted(ptr, child, side="right")) - 1
        is_label = level == tree.depth - 1
        number = label if is_label else int(starts[level + 1]) + child
        bias = searcher.levels[level].bias[child]
        weights = child_weights(searcher.levels[level], node, child - int(ptr[node]), features)
        terms, margin = _added(bias, features, values, weights)
        steps.append(Step(level, int(starts[level]) + node, number, is_label, float(bias), terms, margin))
        child = node
    return steps[::-1]


def _added(
    bias: np.float32, features: np.ndarray, values: np.ndarray, weights: dict[int, np.float32]
) -> tuple[list[Term], float]:
    """(what each feature adds, the margin) in float32, feature by feature, as the kernel adds."""
    margin, terms = bias, []
    for feature, value in zip(features.tolist(), values.astype(np.float32), strict=True):
        if feature in weights:
            contribution = value * weights[feature]
            margin = margin + contribution
            terms.append(Term(feature, float(value), float(weights[feature]), float(contribution)))
    return terms, float(margin)


def child_weights(level: PackedLevel, node: int, child: int, features: np.ndarray) -> dict[int, np.float32]:
    """Weights that the matcher of one child of a node has for some features; those without are left out."""
    slots = level.slots[level.slot_ptr[node] : level.slot_ptr[node + 1]]
    entries = level.entries[level.entry_ptr[node] : level.entry_ptr[node + 1]]
    found = {}
    for feature in features.tolist():
        first = _first_entry(slots, feature)
        if first is None:
            continue
        # Entries are ordered by child: the last of this feature is at most `child` places away, or beyond it.
        run = entries[first : first + child + 1]
        ends = np.flatnonzero(run[:, 0] & _LAST)
        run = run[: ends[0] + 1] if len(ends) else run
        hit = np.flatnonzero((run[:, 0] & (_LAST - 1)) == child)
        if len(hit):
            found[feature] = run[hit[0], 1].view(np.float32)
    return found


def _first_entry(slots: np.ndarray, feature: int) -> int | None:
    """Where the entries of a feature begin in its node; the probe of native/packed.h."""
    size = len(slots)
    at = ((feature * 0x9E3779B1 & 0xFFFFFFFF) * size) >> 32
    for _ in range(size):
        held = int(slots[at, 0])
        if held == feature:
            return int(slots[at, 1]) & 0xFFFFFFFF
        if held < 0:
            return None
        at = at + 1 if at + 1 < size else 0
    raise InputError(_DAMAGED)
