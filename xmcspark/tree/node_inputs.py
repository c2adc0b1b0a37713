"""What each node of a tree is trained on, as numbers: rows, entries, targets, and a hash that changes exactly when
something it learns from does. All are sums over rows, exact in any order, so that partitions can be added."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.sparse.id_hash import bits, mixed
from xmcspark.tree.paths import LabelPaths
from xmcspark.tree.units import NodeCounts

_NODE_IDS = np.uint64(1 << 40)  # so that a node and a label of the same number hash apart


@dataclass(frozen=True)
class NodeInputs:
    """Sums by node; added to in place."""

    rows: np.ndarray  # int64: instances with a label below the node; for the root all
    nnz: np.ndarray  # int64: their features
    targets: np.ndarray  # int64: pairs of such an instance and a child of the node
    hashes: np.ndarray  # uint64: sum over its rows of hash(row, its children there), modulo 2^64

    @classmethod
    def zeros(cls, nodes: int) -> NodeInputs:
        rows, nnz, targets = np.zeros((3, nodes), np.int64)
        return cls(rows, nnz, targets, np.zeros(nodes, np.uint64))

    @property
    def counts(self) -> NodeCounts:
        return NodeCounts(self.rows, self.nnz, self.targets)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.rows, self.nnz, self.targets, self.hashes

    def add(self, start: int, arrays: list[np.ndarray]) -> None:
        """Another part's sums of the nodes from `start` on."""
        for mine, other in zip(self.arrays, arrays, strict=True):
            mine[start : start + len(other)] += other


def add_rows(
    inputs: NodeInputs,
    paths: LabelPaths,
    indptr: np.ndarray,
    labels: np.ndarray,
    row_key: np.ndarray,
    row_hash: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Adds training rows: row i has the labels `labels[indptr[i]:indptr[i + 1]]` and `lengths[i]` features. Labels
    that are not in the tree do not count."""
    of_row = mixed(mixed(bits(row_key)) ^ bits(row_hash))
    row, child = _sorted_pairs(paths, indptr, labels)
    child_hash = mixed(paths.labels[child])
    for level in range(paths.depth - 1, -1, -1):
        parent = paths.parents(level, child)
        begins = _begins(row, parent)
        sums = np.add.reduceat(child_hash, begins) if len(begins) else child_hash
        targets = np.diff(np.append(begins, len(row)))
        row, child = row[begins], parent[begins]
        if level == 0:
            break
        node = paths.starts[level] + child
        np.add.at(inputs.rows, node, 1)
        np.add.at(inputs.nnz, node, lengths[row])
        np.add.at(inputs.targets, node, targets)
        np.add.at(inputs.hashes, node, mixed(of_row[row] ^ mixed(sums)))
        child_hash = mixed(_NODE_IDS + node.astype(np.uint64))
    # Rows without labels are examples of the root only.
    children = np.zeros(len(of_row), np.uint64)
    children[row] = sums
    inputs.rows[0] += len(of_row)
    inputs.nnz[0] += lengths.sum(dtype=np.int64)
    inputs.targets[0] += targets.sum()
    inputs.hashes[:1] += np.add.reduce(mixed(of_row ^ mixed(children)), keepdims=True)  # as arrays: may wrap


def input_hashes(inputs: NodeInputs, paths: LabelPaths) -> np.ndarray:
    """int64: of a node's rows and its children, as the table tree_nodes has it. Children count as well: a new one
    needs a matcher even where no row has it yet."""
    hashes = []
    for level, ptr in enumerate(paths.child_ptr):
        if level == paths.depth - 1:
            child_hash = mixed(paths.labels)
        else:
            numbers = np.arange(paths.starts[level + 1], paths.starts[level + 2], dtype=np.uint64)
            child_hash = mixed(_NODE_IDS + numbers)
        hashes.append(mixed(np.add.reduceat(child_hash, ptr[:-1])))
    return np.asarray((inputs.hashes + np.concatenate(hashes)).view(np.int64))


def _sorted_pairs(paths: LabelPaths, indptr: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, leaf position) of each pair, by row, then position."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    position = paths.positions(labels)
    known = position >= 0
    both = row[known] * len(paths.labels) + position[known]
    both.sort()
    return both // len(paths.labels), both % len(paths.labels)


def _begins(row: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Where a new pair of row and parent begins."""
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (parent[1:] != parent[:-1])
    return np.flatnonzero(new)
