"""Which instances of a very popular label count for its features: about so many, by hash of label and instance, so
that every partition decides for itself and all agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.sparse.id_hash import bits, mixed


@dataclass(frozen=True)
class InstanceCap:
    """The labels with more than the allowed number of positives, and the share of them that stays."""

    labels: np.ndarray  # int32, increasing
    threshold: np.ndarray  # uint64: a pair stays if its hash is below

    @classmethod
    def of(cls, labels: np.ndarray, positives: np.ndarray, most: int) -> InstanceCap:
        over = positives > most
        ids, counts = np.asarray(labels)[over], np.asarray(positives)[over].astype(np.uint64)
        order = np.argsort(ids)
        share = (np.uint64(min(most, 2**32 - 1)) << np.uint64(32)) // np.maximum(counts, np.uint64(1))
        return cls(ids[order].astype(np.int32), share[order] << np.uint64(32))

    def stays(self, labels: np.ndarray, row_keys: np.ndarray, seed: int) -> np.ndarray:
        """Of pairs of a label and an instance's key, whether they count."""
        kept = np.ones(len(labels), bool)
        if not len(self.labels):
            return kept
        place = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        over = np.flatnonzero(self.labels[place] == labels)
        of_label = mixed(mixed(np.array([seed])) ^ labels[over].astype(np.uint64))
        kept[over] = mixed(of_label ^ bits(row_keys[over])) < self.threshold[place[over]]
        return kept
