"""The shape of a balanced label tree, decided from counts alone before any label is looked at: how many
clusters each level has, and which nodes are whose children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xmcspark.errors import InputError

LANES = 16  # siblings that the matcher solver trains at once (native/solve.h)


def level_sizes(n_labels: int, branching: int = 16, max_leaf: int = 96) -> tuple[int, ...]:
    """Clusters per level below the root, the leaf clusters last; empty if the root holds the labels itself.

    From the leaves up: each node gets at most `branching` children, and a leaf cluster at most `max_leaf` labels.
    Where branching fills the solver's lanes, the root may have twice as many children: two groups of lanes cost
    about what one more level would, and fewer levels lose fewer labels on the way down.
    """
    leaves = -(-n_labels // max_leaf)
    if leaves <= 1:
        return ()
    sizes = [leaves]
    most = 2 * branching if branching % LANES == 0 else branching
    while sizes[0] > most:
        sizes.insert(0, -(-sizes[0] // branching))
    return tuple(sizes)


def checked_sizes(sizes: Sequence[int], n_labels: int) -> tuple[int, ...]:
    """`sizes` as level sizes that a tree of `n_labels` can have."""
    result = tuple(int(size) for size in sizes)
    if any(b < a for a, b in pairwise((1, *result))):
        raise InputError(
            f"shape {list(result)}: each level needs at least as many clusters as the one above it"
        )
    if result and result[-1] > n_labels:
        raise InputError(
            f"shape {list(result)} has {result[-1]} leaf clusters, but there are only {n_labels} labels"
        )
    return result


@dataclass(frozen=True)
class Shape:
    """The clusters of a tree, or of the part of it under one node, numbered as in the whole tree."""

    child_ptr: tuple[np.ndarray, ...]  # int64, one per level of clusters but the last; from 0 in this part
    first: np.ndarray  # int64[levels of clusters]: number in the whole tree of each level's first node
    root_level: int  # level in the whole tree

    @classmethod
    def whole(cls, sizes: Sequence[int]) -> Shape:
        counts = [1, *sizes]
        child_ptr = tuple(
            np.arange(above + 1, dtype=np.int64) * below // above for above, below in pairwise(counts)
        )
        return cls(child_ptr, np.zeros(len(counts), np.int64), 0)

    def under(self, level: int, node: int) -> Shape:
        """The part under node `node` of level `level`."""
        a, b = node, node + 1
        child_ptr, first = [], [a]
        for ptr in self.child_ptr[level:]:
            child_ptr.append(ptr[a : b + 1] - ptr[a])
            a, b = int(ptr[a]), int(ptr[b])
            first.append(a)
        return Shape(tuple(child_ptr), np.array(first, np.int64), level)
