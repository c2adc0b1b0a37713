"""The labels of a tree seen at each of its resolutions (paper 4, eq. 5 and 6): for every level, the targets of its
nodes and what they cost. Decides nothing about what is trained on; see shortlist.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.matchers.targets import by_position, l1_normalised, lift, lifted, row_totals
from xmcspark.matchers.trainer import in_one_node
from xmcspark.sparse.csr import Csr
from xmcspark.tree.label_tree import LabelTree


@dataclass(frozen=True)
class Resolution:
    """The children of one level's nodes as outputs to learn. Columns are numbered left to right."""

    number: int  # 0 for the children of the root
    child_ptr: np.ndarray  # int64: children of each parent
    Y: Csr  # targets of children
    R: Csr  # relevance of children, where Y has entries
    cost: np.ndarray  # float32: R̂ of each entry of Y, or 1
    parents: Csr  # those that rows belong to, as Y of the level above

    @property
    def outputs(self) -> int:
        return int(self.child_ptr[-1])


def resolutions(tree: LabelTree, Y: Csr, R: Csr, *, cost_sensitive: bool) -> list[Resolution]:
    """Of all levels of a tree, the root's children first. Y, R: targets and relevance by label id."""
    targets = lifted(by_position(Y, tree, outside="drop"), tree, np.maximum)
    relevance = lifted(by_position(R, tree, outside="drop"), tree, np.add)
    totals = row_totals(relevance[-1])
    found = []
    for number, (of_children, costs) in enumerate(zip(targets, relevance, strict=True)):
        child_ptr = tree.child_ptr[number]
        parents = lift(of_children, child_ptr, np.maximum) if number else in_one_node(Y.shape[0])
        cost = l1_normalised(costs, totals) if cost_sensitive else np.ones(of_children.nnz, np.float32)
        found.append(Resolution(number, child_ptr, of_children, costs, cost, parents))
    return found
