"""How training pairs spread over labels and nodes of a tree, before there is one: labels by Zipf's law, dealt to leaf
clusters by chance; rows of a node by the share of pairs below it, less what rows have several of their labels there."""

from __future__ import annotations

import numpy as np

from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import NodeCounts, node_starts

_HEAD = 1 << 20  # labels that are dealt out one by one; the rest is even enough
_FADES = 0.15  # the more clusters a level has, the fewer labels of a row share one: measured 0.1 to 0.2


def zipf_total(labels: int, exponent: float) -> float:
    """Sum of rank ** -exponent over so many ranks: the head one by one, the rest as an integral."""
    head = min(labels, _HEAD)
    total = float((np.arange(1, head + 1, dtype=np.float64) ** -exponent).sum())
    if labels > head:
        a, b, power = head + 0.5, labels + 0.5, 1.0 - exponent
        total += float(np.log(b / a) if abs(power) < 1e-9 else (b**power - a**power) / power)
    return total


def exponent_for(top_share: float, labels: int) -> float:
    """The exponent with which the most frequent label has this share of all pairs."""
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if zipf_total(labels, middle) * top_share > 1 else (low, middle)
    return low


def capped_pairs(pairs: float, labels: int, exponent: float, most: int | None) -> float:
    """Pairs that are left if each label keeps at most `most` of its own."""
    if most is None:
        return pairs
    ranks = np.arange(1, min(labels, _HEAD) + 1, dtype=np.float64)
    each = pairs * ranks**-exponent / zipf_total(labels, exponent)
    return float(pairs - np.maximum(0.0, each - most).sum())


def leaf_shares(leaf_ptr: np.ndarray, exponent: float) -> np.ndarray:
    """Of all pairs, the share of each leaf cluster, if labels lie in the clusters by chance."""
    labels, leaves = int(leaf_ptr[-1]), len(leaf_ptr) - 1
    random = np.random.default_rng(0)
    head = min(labels, _HEAD)
    weights = np.arange(1, head + 1, dtype=np.float64) ** -exponent
    places = random.permutation(labels) if labels == head else random.integers(0, labels, head)
    leaf = np.searchsorted(leaf_ptr, places, side="right") - 1
    total = zipf_total(labels, exponent)
    tail = (total - weights.sum()) * np.diff(leaf_ptr) / labels
    return np.asarray((np.bincount(leaf, weights, leaves) + tail) / total)


def expected_counts(
    tree: LabelTree, instances: int, pairs: int, row_features: float, exponent: float, together: float
) -> NodeCounts:
    """Rows, entries and targets that the nodes of a tree of this shape will have. `together`: see `apart`."""
    shares, starts = leaf_shares(tree.child_ptr[-1], exponent), node_starts(tree)
    below = pairs * shares  # targets of the level at hand: pairs of a row and a child
    rows, targets = np.zeros((2, starts[-1]))
    for level in range(tree.depth - 1, -1, -1):
        here = slice(starts[level], starts[level + 1])
        draws = apart(pairs / instances, len(shares), together)
        rows[here] = instances * -np.expm1(draws * np.log1p(-np.minimum(shares, 1 - 1e-12)))
        targets[here] = np.maximum(below, rows[here])
        if level:
            above = tree.child_ptr[level - 1][:-1]
            below, shares = np.add.reduceat(rows[here], above), np.add.reduceat(shares, above)
    rows[0] = instances
    whole = [np.rint(values).astype(np.int64) for values in (rows, rows * row_features, targets)]
    return NodeCounts(*whole)


def apart(labels_per_row: float, clusters: int, together: float) -> float:
    """Labels of a row, those that share a cluster of such a level counted once; as if drawn one by one. Of the labels
    beyond the first, together * clusters ** -0.15 lie where another does."""
    if labels_per_row <= 1 or clusters <= 1:
        return labels_per_row
    return 1 + (labels_per_row - 1) * (1 - min(1.0, together * float(clusters**-_FADES)))


def togetherness(tree: LabelTree, counts: NodeCounts) -> float | None:
    """The value of `together` that explains the rows of a real tree's nodes; None if nothing can be told."""
    starts, instances = node_starts(tree), int(counts.rows[0])
    if tree.depth < 2:
        return None
    shares = counts.targets[starts[-2] :].astype(np.float64)  # by leaf cluster
    pairs, found = float(shares.sum()), []
    for level in range(tree.depth - 1, 0, -1):
        rows = float(counts.rows[starts[level] : starts[level + 1]].sum())
        draws = _draws(shares / pairs, rows / instances, pairs / instances)
        if pairs > 1.05 * instances:
            share = (pairs / instances - draws) / (pairs / instances - 1)
            found.append(share * len(shares) ** _FADES)
        shares = np.add.reduceat(shares, tree.child_ptr[level - 1][:-1])
    return float(np.clip(np.mean(found), 0.0, 2.0)) if found else None


def _draws(shares: np.ndarray, rows_per_instance: float, most: float) -> float:
    """Independent draws of a cluster that would give so many different ones."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        reached = float(-np.expm1(middle * np.log1p(-np.minimum(shares, 1 - 1e-12))).sum())
        low, high = (middle, high) if reached < rows_per_instance else (low, middle)
    return low
