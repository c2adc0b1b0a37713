"""What the metrics need to know of each label, from the un-augmented training set: its positives, its weight in
propensity-scored metrics and its frequency bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.quality.label_bins import LabelBins, equal_volume_bins, head_torso_tail, one_bin
from xmcspark.quality.propensity import PROPENSITY_PRESETS, inverse_propensity, label_counts
from xmcspark.sparse.csr import as_csr


@dataclass(frozen=True)
class LabelProfile:
    """Weights and bins of labels. Make one with `from_training`, `from_counts` or `plain`."""

    labels: np.ndarray  # int32 [L]: the label id each place stands for, increasing
    weights: np.ndarray | None  # float64 [L]: inverse propensity over its largest, in (0, 1]; None: unknown
    divisions: tuple[LabelBins, ...]  # the first is always the single bin "all"
    positives: np.ndarray | None = None  # int64 [L]: training instances that have the label; None: unknown

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    @property
    def bin_names(self) -> tuple[str, ...]:
        return tuple(name for division in self.divisions for name in division.names)

    @property
    def bin_sizes(self) -> np.ndarray:
        return np.concatenate([division.sizes for division in self.divisions])

    @staticmethod
    def from_counts(
        counts: np.ndarray,
        n_instances: int,
        preset: str = "default",
        *,
        A: float | None = None,
        B: float | None = None,
        inverse_propensities: np.ndarray | None = None,
    ) -> LabelProfile:
        """From positives per label and rows of the training set; A and B override the preset's, and
        `inverse_propensities`, where given, replace the model."""
        if preset not in PROPENSITY_PRESETS:
            raise InputError(
                f"propensity preset {preset!r} is unknown; known are {sorted(PROPENSITY_PRESETS)}"
            )
        preset_a, preset_b = PROPENSITY_PRESETS[preset]
        inverse = inverse_propensities
        if inverse is None:
            inverse = inverse_propensity(
                counts, n_instances, preset_a if A is None else A, preset_b if B is None else B
            )
        inverse = np.asarray(inverse, np.float64)
        if inverse.shape != np.shape(counts) or not (np.isfinite(inverse) & (inverse > 0)).all():
            raise InputError(
                f"inverse propensities {inverse.shape} must be finite, above 0 and one per label "
                f"{np.shape(counts)}"
            )
        return LabelProfile(
            np.arange(len(inverse), dtype=np.int32),
            inverse / inverse.max(initial=0.0) if len(inverse) else inverse,
            (one_bin(len(inverse)), equal_volume_bins(counts), head_torso_tail(counts)),
            np.asarray(counts).astype(np.int64),
        )

    @staticmethod
    def from_training(Y_train: Any, preset: str = "default") -> LabelProfile:
        """From the training labels [instances, labels] themselves, before any augmentation."""
        Y = as_csr(Y_train, "Y_train")
        return LabelProfile.from_counts(label_counts(Y), Y.shape[0], preset)

    @staticmethod
    def plain(n_labels: int) -> LabelProfile:
        """Without training frequencies: metrics over all labels together, none that weighs by propensity."""
        return LabelProfile(np.arange(n_labels, dtype=np.int32), None, (one_bin(n_labels),))

    def take(self, labels: np.ndarray) -> LabelProfile:
        """The profile of some labels (increasing places), for a partition that sees only those."""
        return LabelProfile(
            self.labels[labels],
            None if self.weights is None else self.weights[labels],
            tuple(division.take(labels) for division in self.divisions),
            None if self.positives is None else self.positives[labels],
        )
