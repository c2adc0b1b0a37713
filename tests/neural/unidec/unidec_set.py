"""A small set for UniDEC: texts of words, whose labels are words, with the words as their texts."""

from pathlib import Path
from typing import Any

import numpy as np
from small_set import LABELS, WORDS, texts_and_targets

from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import ClassifierHead, DualHead, Heads
from xmcspark.neural.unidec.settings import UnidecSettings

QUICK = EncoderSettings(dropout=0.0, learning_rate=3e-4, warmup=0.0, weight_decay=0.0, checkpoint_every=1000)
SMALL = UnidecSettings(
    dual_width=16,
    classifier_width=12,
    head_dropout=0.0,
    batch_size=16,
    positives=2,
    hard_negatives=2,
    refresh_epochs=1,
    classifier_pool_size=None,
    head_learning_rate=3e-3,
    table_learning_rate=3e-2,
)


def unidec_set(folder: Path, encoder: Any, rows: int = 96, **more: Any) -> UnidecData:
    texts, Y = texts_and_targets(rows)
    tokens = TokenStore.write(folder / "instances", encoder, [texts])
    labels = TokenStore.write(folder / "labels", encoder, [WORDS[:LABELS]])
    return UnidecData(Y, tokens, labels, **more)


def small_heads(width: int = 64, dual: bool = True, classifier: bool = True, learned: bool = False) -> Heads:
    return Heads(
        DualHead(width, 16, 0.0, 0.1, learned, 0) if dual else None,
        ClassifierHead(width, 12, 0.0, 0.1, learned, 1) if classifier else None,
    )


def first_rows(labels: int = LABELS, width: int = 12) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(labels, width)).astype(np.float32)
