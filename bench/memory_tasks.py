"""Generated work for bench.label_memory: a level of labels as XR-Transformer fine-tunes on, and a pool of labels as
UniDEC does, over as many labels as wanted. Which labels a row meets is drawn, so that all of the table is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.matchers.targets import lift
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.level_task import LevelTask
from xmcspark.neural.resolutions import Resolution
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.shortlist import united
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import TrainingSet
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import ClassifierHead, DualHead, Heads
from xmcspark.neural.unidec.refresh import Refresh
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.neural.unidec.task import UnidecTask
from xmcspark.sparse.csr import as_csr

LABELS_A_ROW, LEAF, PARENTS = 3, 16, 10
_BATCH = 32
_UNIDEC = UnidecSettings(enabled=True, batch_size=128, refresh_epochs=1)

Task = LevelTask | UnidecTask
TaskAndSettings = tuple[Task, EncoderSettings]


def level_task(
    encoder: TextEncoder, shape: tuple[int, int], steps: int, pool: int | None, work: Path
) -> TaskAndSettings:
    """A level of labels: each row has a few, and is trained on the leaves of these and of others drawn for it."""
    rng, (rows, labels) = np.random.default_rng(0), shape
    child_ptr = np.minimum(np.arange(0, labels + LEAF, LEAF, dtype=np.int64), labels)
    Y = as_csr(_drawn(rng, LABELS_A_ROW, shape))
    parents = lift(Y, child_ptr, np.maximum)
    reached = as_csr(_drawn(rng, PARENTS, (rows, len(child_ptr) - 1)))
    tokens = TokenStore.write(work / "tokens", encoder, [_texts(rng, rows)])
    data = TrainingSet(as_csr(_drawn(rng, 1, (rows, 8))), Y, tokens, np.arange(rows, dtype=np.int64))
    task = LevelTask(
        name="labels",
        data=data,
        level=Resolution(1, child_ptr, Y, Y, np.ones(Y.nnz, np.float32), parents),
        shortlist=united(reached, parents),
        reached=reached,
        table=RowTable.create(labels, encoder.width, work / "head"),
        steps=steps,
        step_rows=_BATCH,
        train_rows=np.arange(rows),
        held_out=np.zeros(0, np.int64),
        alpha=1.0,
        seed=0,
    )
    return task, EncoderSettings(enabled=True, batch_size=_BATCH)


def unidec_task(
    encoder: TextEncoder, shape: tuple[int, int], steps: int, pool: int | None, work: Path
) -> TaskAndSettings:
    """Both heads, the dual one on `pool` labels, the classifier on as many as by default. Hard negatives are drawn:
    mining them is no part of a step."""
    rng, (rows, labels) = np.random.default_rng(0), shape
    settings = UnidecSettings(**{**vars(_UNIDEC), "pool_size": pool})
    Y = as_csr(_drawn(rng, LABELS_A_ROW, shape))
    tokens = TokenStore.write(work / "tokens", encoder, [_texts(rng, rows)])
    portions = (_texts(rng, min(4096, labels - start)) for start in range(0, labels, 4096))
    data = UnidecData(Y, tokens, TokenStore.write(work / "label-tokens", encoder, portions))
    mined = rng.integers(labels, size=(rows, settings.mined), dtype=np.int32)
    Refresh(np.arange(rows, dtype=np.int64), mined).save(work / "unidec-refresh-0")
    width, how = encoder.width, (settings.head_dropout, settings.temperature, False, 0)
    task = UnidecTask(
        name="unidec",
        data=data,
        settings=settings,
        encoder=encoder,
        heads=Heads(DualHead(width, width, *how), ClassifierHead(width, width, *how, pool or 1000)),
        table=RowTable.create(labels, width, work / "head"),
        rows=np.arange(rows, dtype=np.int64),
        steps=min(steps, rows // settings.batch_size),
        seed=0,
        folder=work,
    )
    return task, EncoderSettings(enabled=True, batch_size=settings.batch_size)


TASKS: dict[str, Callable[[TextEncoder, tuple[int, int], int, int | None, Path], TaskAndSettings]] = {
    "level": level_task,
    "unidec": unidec_task,
}


def _texts(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(letters) for letters in rng.choice(list("abcdefghij "), (count, 30))]


def _drawn(rng: np.random.Generator, count: int, shape: tuple[int, int]) -> Any:
    """Rows with `count` columns each; a column drawn twice counts once."""
    import scipy.sparse as sp

    rows, columns = shape
    places = np.repeat(np.arange(rows), count), rng.integers(columns, size=rows * count)
    found = sp.csr_matrix((np.ones(rows * count, np.float32), places), shape=shape)
    found.data[:] = 1
    return found
