"""Runs of the stages corpus to train over a small corpus whose label texts say something, and the same by the local
library."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from xmcspark.config.configuration import load
from xmcspark.flow_spark import STAGES
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runner import run_stages
from xmcspark.store.runs import Run

LABELS, ROWS = 40, 240
_COLOURS = ("red", "blue", "green", "black", "white")
_THINGS = ("shoes", "lamp", "table", "coat", "phone", "chair", "ring", "book")


def label_texts():
    """One label, the last but one, has no text."""
    texts = [f"{colour} {thing}" for thing in _THINGS for colour in _COLOURS]
    return [None if i == LABELS - 2 else text for i, text in enumerate(texts)]


def make_corpus(folder, seed=0):
    """Instances with one to four labels of the same thing; texts with words of some of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(ROWS):
        thing = int(rng.integers(len(_THINGS)))
        colours = np.sort(rng.choice(len(_COLOURS), int(rng.integers(1, 5)), replace=False))
        words = [_COLOURS[c] for c in colours[:2]] + [_THINGS[thing], f"brand{rng.integers(9)}"]
        rows.append((f"q{i}", " ".join(rng.permutation(words)), [5 * thing + int(c) for c in colours]))
    folder.mkdir(parents=True, exist_ok=True)
    for split, part in (("train", rows[:-40]), ("test", rows[-40:])):
        ids, texts, labels = zip(*part, strict=True)
        table = pa.table({"id": ids, "text": texts, "labels": pa.array(labels, pa.list_(pa.int32()))})
        pq.write_table(table, folder / f"{split}.parquet", row_group_size=64)
    names = pa.table(
        {"id": pa.array(range(LABELS), pa.int32()), "text": pa.array(label_texts(), pa.string())}
    )
    pq.write_table(names, folder / "labels.parquet")
    return rows


def run_to(spark, folder, last, *overrides, run="test"):
    """A run of the corpus in `folder`, up to the stage `last`."""
    given = [f"input.{name}={folder}/{name}.parquet" for name in ("train", "test", "labels")]
    root = str(folder / "runs")
    config = load(None, [f"run.root={root}", f"run.id={run}", "tree.max_leaf=6", *given, *overrides])
    opened = Run(Filesystem(spark), root, run)
    names = [stage.name for stage in STAGES]
    run_stages(spark, config, opened, None, STAGES[1 : names.index(last) + 1])
    return opened, config


def labels_of(rows):
    """Y of rows as `make_corpus` has them."""
    indptr = np.cumsum([0, *(len(labels) for _, _, labels in rows)])
    indices = np.concatenate([labels for _, _, labels in rows])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(rows), LABELS))
