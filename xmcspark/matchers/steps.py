"""Which training units can be trained at the same time: all of them, or, where negatives come from a search of the
levels above, one level after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xmcspark.matchers.schedule import Work
from xmcspark.matchers.settings import TrainSettings
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.unit_levels import reached_counts, units_by_level
from xmcspark.tree.units import NodeCounts, Unit


@dataclass(frozen=True)
class TreeWork:
    """A member's tree, the units its training is cut into, and the counts these follow from."""

    tree: LabelTree
    units: list[Unit]
    counts: NodeCounts

    def crowded(self, max_rows: int) -> dict[int, int]:
        """The rows of each node that has more."""
        nodes = (self.counts.rows > max_rows).nonzero()[0]
        return {int(node): int(self.counts.rows[node]) for node in nodes}


def training_steps(trees: Sequence[TreeWork], settings: TrainSettings) -> list[list[Work]]:
    """The work of each step. A step begins when the one before has ended."""
    if settings.negatives == "tfn":
        return [[Work(member, unit) for member, tree in enumerate(trees) for unit in tree.units]]
    steps: list[list[Work]] = [[] for _ in range(max(tree.tree.depth for tree in trees))]
    for member, tree in enumerate(trees):
        counts = reached_counts(tree.tree, tree.counts, settings.man_beam)
        levels = units_by_level(tree.tree, tree.units, counts, settings.max_rows)
        for step, units in zip(steps, levels, strict=False):
            step += [Work(member, unit) for unit in units]
    return steps
