"""Which instances an encoder is checked on instead of trained on, and what of the targets is left to learn from."""

from __future__ import annotations

import numpy as np

from xmcspark.labels.draws import streams, uniform
from xmcspark.matchers.targets import rows_of, select
from xmcspark.sparse.csr import Csr


def drawn_rows(keys: np.ndarray, made: np.ndarray | None, share: float, seed: int) -> np.ndarray:
    """bool [rows]: by a draw that follows from a row's key. Those that augmentation `made` are never among them: they
    say nothing about instances that people wrote."""
    drawn = uniform(streams(seed, "rows held out of fine-tuning", keys)) < share
    return drawn if made is None else drawn & ~made


def learned_targets(Y: Csr, held_out: np.ndarray, *, every_label: bool = False) -> Csr:
    """Y without the entries of rows that are held out. With `every_label`, those of a label that no other row has stay:
    for what must know all labels."""
    if not held_out.any():
        return Y
    kept = ~held_out[rows_of(Y)]
    if every_label:
        known = np.zeros(Y.shape[1], bool)
        known[Y.indices[kept]] = True
        kept |= ~known[Y.indices]
    return select(Y, kept)
