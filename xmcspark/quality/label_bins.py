"""Groups of labels by training frequency, so that a metric can be read for head and tail apart: bins of
equal total positives (paper 5, figure 1.3), and head / torso / tail by fixed limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.errors import InputError


@dataclass(frozen=True)
class LabelBins:
    """A division of all labels into named bins: each label is in exactly one."""

    names: tuple[str, ...]
    of_label: np.ndarray  # int8 [labels]: index into names
    sizes: np.ndarray  # int64 [bins]: labels of each, over all labels even where of_label is a part of them

    def take(self, labels: np.ndarray) -> LabelBins:
        """The bins of some labels only; the sizes stay those of the whole."""
        return LabelBins(self.names, self.of_label[labels], self.sizes)


def one_bin(n_labels: int) -> LabelBins:
    """All labels together."""
    return _bins(("all",), np.zeros(n_labels, np.int8))


def equal_volume_bins(label_counts: np.ndarray, n_bins: int = 5) -> LabelBins:
    """Bins `q1` (head) to `q5` (tail) with about the same number of training positives each.

    Labels are ordered by falling count, then id; a label belongs to the bin in which the middle of its
    positives falls. A label with more than its share can leave a bin empty; labels without positives are in
    the last.
    """
    counts = _checked(label_counts)
    if not 1 <= n_bins <= 100:
        raise InputError(f"label bins: {n_bins} bins asked for; 1 to 100 are possible")
    order = np.argsort(-counts, kind="stable")
    ordered = counts[order]
    twice_middle = 2 * np.cumsum(ordered) - ordered  # whole numbers: no rounding at the borders
    total = max(1, int(ordered.sum()))
    of_label = np.empty(len(counts), np.int8)
    of_label[order] = np.minimum(n_bins * twice_middle // (2 * total), n_bins - 1)
    of_label[counts == 0] = n_bins - 1
    return _bins(tuple(f"q{i + 1}" for i in range(n_bins)), of_label)


def head_torso_tail(label_counts: np.ndarray, head_above: int = 100, tail_below: int = 10) -> LabelBins:
    """`head` (more than 100 training positives), `torso` (10 to 100) and `tail` (fewer than 10)."""
    counts = _checked(label_counts)
    if tail_below > head_above + 1:
        raise InputError(f"label bins: tail below {tail_below} and head above {head_above} overlap")
    of_label = np.where(counts > head_above, 0, np.where(counts < tail_below, 2, 1))
    return _bins(("head", "torso", "tail"), of_label.astype(np.int8))


def _bins(names: tuple[str, ...], of_label: np.ndarray) -> LabelBins:
    return LabelBins(names, of_label, np.bincount(of_label, minlength=len(names)).astype(np.int64))


def _checked(label_counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(label_counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise InputError("label_counts must be a vector of whole numbers, none negative: positives per label")
    return counts.astype(np.int64)
