"""How likely a true label is to have been recorded at all, by its training frequency (Jain, Prabhu and
Varma 2016). Its inverse weighs hits in PSP@k and PSnDCG@k."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.portable_math import exact_exp, exact_log
from xmcspark.sparse.csr import as_csr

# (A, B) as published with the XMC repository's datasets.
PROPENSITY_PRESETS: dict[str, tuple[float, float]] = {
    "default": (0.55, 1.5),
    "wikipedia": (0.5, 0.4),
    "amazon": (0.6, 2.6),
}


def inverse_propensity(
    label_counts: np.ndarray, n_instances: int, A: float = 0.55, B: float = 1.5
) -> np.ndarray:
    """1 / p_l = 1 + C (N_l + B)^-A with C = (log N - 1)(B + 1)^A, float64 [labels].

    `label_counts` and `n_instances` are those of the training set before any augmentation. Below three
    instances log N - 1 is negative and the formula has no meaning: C is 0 there, all labels weigh 1.
    """
    counts = np.asarray(label_counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise InputError("label_counts must be a vector of whole numbers, none negative: positives per label")
    if n_instances < 1 or counts.max(initial=0) > n_instances:
        raise InputError(
            f"n_instances is {n_instances}, but a label has {counts.max(initial=0)} training instances; give "
            "the number of rows of the un-augmented training set"
        )
    if not (np.isfinite(A) and np.isfinite(B) and A >= 0 and B > 0):
        raise InputError(f"propensity: A is {A} and B {B}; A must be at least 0 and B above 0")
    log_n, log_b = exact_log(np.array([n_instances, B + 1.0], np.float64))
    C = max(0.0, log_n - 1.0) * exact_exp(np.array(A * log_b))
    distinct, which = np.unique(counts, return_inverse=True)  # far fewer than labels
    inverse = 1.0 + C * exact_exp(-A * exact_log(distinct + B))
    result: np.ndarray = inverse[which]
    return result


def label_counts(Y: Any) -> np.ndarray:
    """Positives of each label (stored values above 0), int64 [labels]."""
    matrix = as_csr(Y, "Y")
    counts: np.ndarray = np.bincount(matrix.indices[matrix.data > 0], minlength=matrix.shape[1])
    return counts.astype(np.int64)
