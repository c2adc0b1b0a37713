"""A label tree as tables that a person can query. A node's path has a fixed width per level, so that all
below a node is found by a prefix."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from xmcspark.tree.label_tree import LabelTree


def node_table(tree: LabelTree) -> pa.Table:
    """One row per cluster, the root first: node, parent (-1 for the root), level, path ("" for the root),
    n_children, n_labels."""
    parts = []
    first = 0  # number of the level's first node among all nodes
    paths = np.array([""])
    parent = np.array([-1])
    for level, ptr in enumerate(tree.child_ptr):
        nodes = len(ptr) - 1
        parts.append(
            pa.table(
                {
                    "node": pa.array(np.arange(first, first + nodes, dtype=np.int32)),
                    "parent": pa.array(parent.astype(np.int32)),
                    "level": pa.array(np.full(nodes, level, np.int32)),
                    "path": pa.array(paths.tolist(), pa.string()),
                    "n_children": pa.array(np.diff(ptr).astype(np.int32)),
                    "n_labels": pa.array(np.diff(tree.leaf_range(level)).astype(np.int32)),
                }
            )
        )
        if level + 1 < tree.depth:
            above = np.repeat(np.arange(nodes), np.diff(ptr))
            paths, parent = _child_paths(paths, ptr), first + above
            first += nodes
    return pa.concat_tables(parts)


def label_table(tree: LabelTree) -> pa.Table:
    """One row per label in leaf order: label, node (its leaf cluster in `node_table`), path, position."""
    paths = np.array([""])
    for ptr in tree.child_ptr[:-1]:
        paths = _child_paths(paths, ptr)
    first = sum(tree.level_sizes[: tree.depth - 1])
    leaf = np.repeat(np.arange(len(paths)), np.diff(tree.child_ptr[-1]))
    return pa.table(
        {
            "label": pa.array(tree.labels),
            "node": pa.array((first + leaf).astype(np.int32)),
            "path": pa.array(paths[leaf].tolist(), pa.string()),
            "position": pa.array(np.arange(tree.n_labels, dtype=np.int32)),
        }
    )


def _child_paths(paths: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Path of each child: its parent's, then its own number there, as wide as the level's largest one."""
    children = np.diff(ptr)
    own = np.arange(ptr[-1]) - np.repeat(ptr[:-1], children)
    own_text = np.char.zfill(own.astype(str), len(str(children.max() - 1)))
    above = np.repeat(paths, children)
    separator = "." if paths[0] else ""
    return np.char.add(np.char.add(above, separator), own_text)
