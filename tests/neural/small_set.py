"""A small training set whose labels follow from words, so that there is something to learn."""

from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import TrainingSet, tokens_folder
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.text.tfidf import Tfidf

# Of those that the tiny encoder knows.
WORDS = """cat dog bird fish tree house river stone red green blue old new big small runs sings sleeps swims falls
history poetry letters travels life art war sea""".split()  # noqa: SIM905
LABELS = 24


def texts_and_targets(rows: int, seed: int = 0) -> tuple[list[str], Csr]:
    """Texts of three to six words; each of the first words is a label of the texts that have it."""
    rng = np.random.default_rng(seed)
    texts, Y = [], np.zeros((rows, LABELS), np.float32)
    for row in range(rows):
        chosen = rng.choice(len(WORDS), rng.integers(3, 7), replace=False)
        texts.append(" ".join(WORDS[word] for word in chosen))
        Y[row, [word for word in chosen if word < LABELS]] = 1
        Y[row, rng.integers(LABELS)] = 1  # everyone has one
    return texts, as_csr(Y)


def small_set(folder: Path, encoder: Any, rows: int = 120, **more: Any) -> TrainingSet:
    texts, Y = texts_and_targets(rows)
    tokens = TokenStore.write(tokens_folder(folder), encoder, [texts])
    X = Tfidf().fit(texts).rows(texts)
    data = TrainingSet(X, Y, tokens, np.arange(rows, dtype=np.int64), **more)
    data.save(folder)
    return data
