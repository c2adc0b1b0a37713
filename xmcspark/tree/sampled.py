"""When and from which labels the upper levels of a balanced tree are built, where there are too many for one task: the
sample, and the level below which each sub-tree is built from all of its labels. Decided by settings and counts only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xmcspark.errors import InputError
from xmcspark.sparse.id_hash import bits, mixed
from xmcspark.tree.params import TreeParams

BALANCE = 1.1  # labels of a sub-tree over its share, at most
_LABELS_PER_SUB_TREE = 16  # in the sample at least, so that each has a centre
_SAMPLE = np.uint64(0x53414D504C45)  # tells this choice by hash from others


@dataclass(frozen=True)
class SampledCut:
    """How upper levels are built from a sample."""

    level: int  # whose clusters are the sub-trees that are built from all labels
    share: float  # of the labels that are in the sample
    sizes: tuple[int, ...]  # clusters per level of the whole tree

    @property
    def sub_trees(self) -> int:
        return self.sizes[self.level - 1]


def sampled_cut(n_labels: int, sizes: Sequence[int], params: TreeParams) -> SampledCut | None:
    """Of a balanced tree; None if it is built from all labels. Else the sub-trees are the largest that have no more
    labels than the sample."""
    most = params.sample_labels
    if n_labels <= most or not sizes:
        return None
    small = [level for level, size in enumerate(sizes, 1) if BALANCE * n_labels <= most * size]
    level = small[0] if small else len(sizes)
    if _LABELS_PER_SUB_TREE * sizes[level - 1] > most:
        raise InputError(
            f"sample_labels is {most}: too few to tell {sizes[level - 1]} sub-trees of {n_labels} labels apart; set "
            f"tree.sample_labels to {_LABELS_PER_SUB_TREE * sizes[level - 1]} or more"
        )
    if BALANCE * sizes[-1] > n_labels:
        raise InputError(
            f"{sizes[-1]} leaf clusters for {n_labels} labels are too many where sub-trees are equal within 10% only: "
            f"raise tree.max_leaf, or tree.sample_labels to {n_labels}"
        )
    return SampledCut(level, most / n_labels, tuple(sizes))


def in_sample(labels: np.ndarray, cut: SampledCut, seed: int) -> np.ndarray:
    """bool: whether each label is in the sample, by hash(seed, label)."""
    own = mixed(mixed(np.array([seed], np.uint64)) ^ _SAMPLE)
    return np.asarray(mixed(mixed(bits(labels)) ^ own) < np.uint64(int(cut.share * 2.0**64)))
