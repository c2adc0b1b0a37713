"""A label tree as tables that a person can query. A node's path has a fixed width per level, so that all
below a node is found by a prefix. Any range of nodes or labels can be made by itself, from the tree's arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from xmcspark.tree.label_tree import LabelTree

Levels = Sequence[np.ndarray]  # LabelTree.child_ptr


def node_table(tree: LabelTree) -> pa.Table:
    """One row per cluster, the root first: node, parent (-1 for the root), level, path ("" for the root),
    n_children, n_labels."""
    levels = [level_table(tree.child_ptr, level, 0, len(ptr) - 1) for level, ptr in enumerate(tree.child_ptr)]
    return pa.concat_tables(levels)


def label_table(tree: LabelTree) -> pa.Table:
    """One row per label in leaf order: label, node (its leaf cluster in `node_table`), path, position."""
    return position_table(tree.child_ptr, tree.labels, 0, tree.n_labels)


def level_table(child_ptr: Levels, level: int, start: int, stop: int) -> pa.Table:
    """The rows of `node_table` of the clusters `start` to `stop` of one level."""
    within = np.arange(start, stop)
    ends = np.arange(start, stop + 1)
    for ptr in child_ptr[level:]:
        ends = ptr[ends]
    first = _first_nodes(child_ptr)
    parent = np.full(len(within), -1)
    if level > 0:
        parent = first[level - 1] + _parents(child_ptr[level - 1], within)
    return pa.table(
        {
            "node": pa.array((first[level] + within).astype(np.int32)),
            "parent": pa.array(parent.astype(np.int32)),
            "level": pa.array(np.full(len(within), level, np.int32)),
            "path": pa.array(node_paths(child_ptr, level, within).tolist(), pa.string()),
            "n_children": pa.array(np.diff(child_ptr[level][start : stop + 1]).astype(np.int32)),
            "n_labels": pa.array(np.diff(ends).astype(np.int32)),
        }
    )


def position_table(child_ptr: Levels, labels: np.ndarray, start: int, stop: int) -> pa.Table:
    """The rows of `label_table` of the leaf positions `start` to `stop`."""
    level = len(child_ptr) - 1
    leaf = _parents(child_ptr[level], np.arange(start, stop))
    leaves, of = np.unique(leaf, return_inverse=True)
    return pa.table(
        {
            "label": pa.array(np.asarray(labels[start:stop], np.int32)),
            "node": pa.array((_first_nodes(child_ptr)[level] + leaf).astype(np.int32)),
            "path": pa.array(node_paths(child_ptr, level, leaves)[of].tolist(), pa.string()),
            "position": pa.array(np.arange(start, stop, dtype=np.int32)),
        }
    )


def node_paths(child_ptr: Levels, level: int, nodes: np.ndarray) -> np.ndarray:
    """Path of each of some clusters of a level: numbers among siblings, each as wide as its level's largest one."""
    paths: np.ndarray | None = None
    for ptr in reversed(child_ptr[:level]):
        parent = _parents(ptr, nodes)
        own = np.char.zfill((nodes - ptr[parent]).astype(str), len(str(np.diff(ptr).max() - 1)))
        paths = own if paths is None else np.char.add(np.char.add(own, "."), paths)
        nodes = parent
    return np.full(len(nodes), "") if paths is None else paths


def _parents(ptr: np.ndarray, children: np.ndarray) -> np.ndarray:
    return np.searchsorted(ptr, children, side="right") - 1


def _first_nodes(child_ptr: Levels) -> list[int]:
    """Number among all nodes of each level's first."""
    first = [0]
    for ptr in child_ptr[:-1]:
        first.append(first[-1] + len(ptr) - 1)
    return first
