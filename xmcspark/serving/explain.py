"""Why a text gets a label: what every feature adds to the margin of every matcher on the label's path, read from the
packed model. Additions are those of the search, in its order and precision, so the sums are its margins to the bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.search import PackedLevel, Searcher
from xmcspark.tree.units import node_starts

_LAST = 1 << 31  # marks the last entry of a feature (native/packed.h)
_BLOCK = 16  # children whose dense weights lie together (native/dense_margins.h)
EMBEDDING = "embedding"  # in the place of a gram
_DAMAGED = "the packed model is damaged: copy or save it again"


class Term(NamedTuple):
    """A feature that the text and a matcher both have."""

    gram: str  # the words or characters it stands for
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


class WeighedText(NamedTuple):
    """A text as the model sees it: its features, increasing, and its embedding if the model has dense columns."""

    features: np.ndarray
    values: np.ndarray
    grams: list[str]
    dense: np.ndarray | None = None


def path_steps(searcher: Searcher, text: WeighedText, label: int) -> list[Step]:
    """The matchers from the root to a label with what a text adds to each. What its embedding adds is one term, because
    no coordinate of it means something by itself."""
    if (0 if text.dense is None else len(text.dense)) != searcher.width:
        raise InputError(
            f"the model has {searcher.width} dense columns: give the embedding of the text with as many"
        )
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
        weights = child_weights(searcher.levels[level], node, child - int(ptr[node]), text.features)
        terms, margin = added(bias, text, weights)
        if text.dense is not None:
            added_by_it = dense_product(text.dense, dense_weights(searcher, level, node, child))
            terms.append(Term(EMBEDDING, searcher.n_features - searcher.width, 1.0, added_by_it, added_by_it))
            margin = float(np.float32(margin) + np.float32(added_by_it))
        steps.append(Step(level, int(starts[level]) + node, number, is_label, float(bias), terms, margin))
        child = node
    return steps[::-1]


def added(bias: np.float32, text: WeighedText, weights: dict[int, np.float32]) -> tuple[list[Term], float]:
    """(what each feature adds, the margin) in float32, feature by feature, as the kernel adds."""
    margin, terms = bias, []
    columns = text.grams, text.features.tolist(), text.values.astype(np.float32)
    for gram, feature, value in zip(*columns, strict=True):
        if feature in weights:
            contribution = value * weights[feature]
            margin = margin + contribution
            terms.append(Term(gram, feature, float(value), float(weights[feature]), float(contribution)))
    return terms, float(margin)


def dense_weights(searcher: Searcher, level: int, node: int, child: int) -> np.ndarray:
    """The weights that the matcher of a child of a node, numbered on its level, has for the dense columns."""
    first, last = searcher.tree.child_ptr[level][node : node + 2].tolist()
    blocks, width = searcher.levels[level].dense, searcher.width
    assert blocks is not None
    begin = first + (child - first) // _BLOCK * _BLOCK
    children = min(_BLOCK, last - begin)
    return blocks[begin * width : (begin + children) * width].reshape(width, children)[:, child - begin]


def dense_product(x: np.ndarray, weights: np.ndarray) -> float:
    """As native/dense_rows.h adds: even and odd columns apart, one after the other."""
    products = x.astype(np.float32) * weights
    even, odd = (np.add.accumulate(np.append(np.float32(0), products[i::2]))[-1] for i in (0, 1))
    return float(even + odd)


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
