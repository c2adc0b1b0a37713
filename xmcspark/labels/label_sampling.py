"""Which labels' texts become instances, and which rows stay where a union is cut to a number of rows: by hash, so that
every partition decides for itself and all agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.draws import streams, uniform

_BINS = 5  # of equal training volume, as metrics have them
_ANY = 2**63 - 1  # positives


@dataclass(frozen=True)
class LabelSample:
    """A rule small enough to send anywhere: labels up to a frequency all, up to another one a share of them."""

    all_up_to: int  # positives
    some_up_to: int  # positives
    share: float  # of those in between
    seed: int

    @classmethod
    def of(cls, positives: np.ndarray, settings: AugmentSettings, seed: int) -> LabelSample:
        """The rule by which about `settings.share` of the labels that have positives are taken; `positives` are those
        of all labels."""
        counts, labels = np.unique(positives[positives > 0], return_counts=True)
        if settings.sample == "uniform" or settings.share == 1.0 or not len(counts):
            return cls(-1, _ANY, settings.share, seed)
        return cls(*_tail_first(counts, labels, settings.share), seed)

    def takes(self, labels: np.ndarray, positives: np.ndarray) -> np.ndarray:
        """Of labels with so many positives, whether they are taken."""
        drawn = uniform(streams(self.seed, "label texts", labels)) < self.share
        taken: np.ndarray = (positives <= self.all_up_to) | ((positives <= self.some_up_to) & drawn)
        return taken


def row_stays(row_keys: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Of rows, whether they are among the share that is trained on."""
    stays: np.ndarray = uniform(streams(seed, "rows of the union", row_keys)) < share
    return stays


def _tail_first(counts: np.ndarray, labels: np.ndarray, share: float) -> tuple[int, int, float]:
    """Bins of about the same total positives, from the rarest labels on: all of a bin, then of the next (paper 5,
    figure 1.4), and of the one on the border as many as are missing. `counts` rise; so many `labels` have each.
    Labels with the same count are in one bin."""
    volume = counts * labels
    ends = np.cumsum(volume)
    bin_of = np.minimum(_BINS * (2 * ends - volume) // (2 * int(ends[-1])), _BINS - 1)
    last = np.flatnonzero(np.append(bin_of[1:] != bin_of[:-1], True))  # count of each bin, of those not empty
    sizes = np.diff(np.concatenate([[0], np.cumsum(labels)[last]]))
    wanted = share * int(labels.sum())
    border = int(np.searchsorted(np.cumsum(sizes), wanted))
    taken = int(sizes[:border].sum())
    below = int(counts[last[border - 1]]) if border else -1
    return below, int(counts[last[border]]), (wanted - taken) / int(sizes[border])
