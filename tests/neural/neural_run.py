"""Runs of all stages over a small corpus that the tiny encoder can read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from small_set import LABELS, WORDS, texts_and_targets

from xmcspark.config.configuration import load
from xmcspark.flow_spark import STAGES
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runner import run_stages
from xmcspark.store.runs import Run

TRAIN, TEST = 110, 30
QUICK = (
    "encoder.batch_size=16",
    "encoder.learning_rate=0.001",
    "encoder.head_learning_rate=0.01",
    "encoder.max_length=16",
    "encoder.epochs=2.0",
    "xr_transformer.fewest_nodes=2",
    "tree.branching=4",
    "tree.max_leaf=6",
    "predict.beam=4",
)


def make_corpus(folder):
    """Texts, with the words of their labels among their own."""
    texts, Y = texts_and_targets(TRAIN + TEST)
    rows = [
        (f"q{i}", text, Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i, text in enumerate(texts)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for split, part in (("train", rows[:TRAIN]), ("test", rows[TRAIN:])):
        ids, some, labels = zip(*part, strict=True)
        table = pa.table({"id": ids, "text": some, "labels": pa.array(labels, pa.list_(pa.int32()))})
        pq.write_table(table, folder / f"{split}.parquet", row_group_size=32)
    names = pa.table({"id": pa.array(range(LABELS), pa.int32()), "text": WORDS[:LABELS]})
    pq.write_table(names, folder / "labels.parquet")
    return rows


def configuration(folder, model, method, *overrides, run="test"):
    given = [f"input.{name}={folder}/{name}.parquet" for name in ("train", "test", "labels")]
    places = [f"run.root={folder / 'runs'}", f"run.id={run}", f"encoder.model={model}"]
    return load(None, [f"method={method}", *places, *QUICK, *given, *overrides])


def run_to(spark, config, last):
    """The run of a configuration, up to the stage `last`, and how each stage ended."""
    opened = Run(Filesystem(spark), config.run.root, str(config.run.id))
    names = [stage.name for stage in STAGES]
    return opened, run_stages(spark, config, opened, None, STAGES[1 : names.index(last) + 1])
