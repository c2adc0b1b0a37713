"""Training level by level, for matcher-aware negatives: before a level is trained, the levels above are packed for
search, and every task that deals out rows searches them to see which nodes each row reaches. A row's beam is taken over
the whole level, so a level starts when all of the one above is trained."""

from __future__ import annotations

from dataclasses import replace

from xmcspark.matchers.caps_spark import reached_crowds, row_caps
from xmcspark.matchers.pack_spark import write_upper_levels
from xmcspark.matchers.wave_spark import Forest
from xmcspark.store.direct_tables import Rows
from xmcspark.store.progress import tell
from xmcspark.store.side_files import send_folder
from xmcspark.store.stage import Context
from xmcspark.tree.units import Unit


def forest_of_level(
    context: Context,
    rows: Rows,
    forest: Forest,
    level: int,
    units: list[list[Unit]],
    weights: dict[tuple[int, int], int],
    n_rows: int,
) -> Forest:
    """What the tasks of a level need: the levels above, packed, and the caps of its crowded nodes besides those that
    the forest has. `units` are those of each member, `weights` of each unit; there are `n_rows` rows."""
    if level:
        tell("train", f"packing what is above level {level}")
        uri = context.scratch(f"above-{level}-{context.run.id}-{context.key[:12]}")
        write_upper_levels(context, forest, units, weights, level, uri)
        forest = replace(forest, above=send_folder(context.spark, context.fs, uri, context.key))
    max_rows = context.config.train.max_rows
    return _with_caps(rows, forest, level, max_rows) if n_rows > max_rows else forest  # else no node has more


def _with_caps(rows: Rows, forest: Forest, level: int, max_rows: int) -> Forest:
    members = [member for member in range(len(forest.settings)) if forest.tree(member).depth > level]
    crowds = reached_crowds(rows, forest, members, level, max_rows)
    found = row_caps(rows, forest, crowds, max_rows)
    return replace(forest, caps=tuple({**a, **b} for a, b in zip(forest.caps, found, strict=True)))
