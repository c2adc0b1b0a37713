"""Texts to rows of X with their embeddings beside them, on all executors: one encoder and one text model in each Python
process, applied to one Arrow batch after the other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from xmcspark.labels.training_rows_spark import vectorized_rows
from xmcspark.neural.settings import EncoderSettings
from xmcspark.store.direct_tables import ArrowFunction, Batches
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.session import arrow_batch, task_threads
from xmcspark.store.side_files import SideFolder, send_folder
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES
from xmcspark.text.features_spark import LOOKUP, READ, transforming

if TYPE_CHECKING:
    from xmcspark.neural.device import Device
    from xmcspark.neural.encoder import TextEncoder

ENCODER = "bundle/encoder"
_NAMES = TABLES["embeddings"].names
_RECORDS = 2048  # a batch: enough texts that those of like length fill forward passes


def write_embeddings(context: Context) -> int:
    """Writes the table `embeddings` of all instances; how many there are."""
    spark, version = context.spark, uuid.uuid4().hex
    encoder = send_folder(spark, context.fs, context.folder(ENCODER), context.key)
    lookup = send_folder(spark, context.fs, context.folder(LOOKUP), context.run.key_of_input(f"{LOOKUP}/"))
    threads = task_threads(spark)
    function = _embedding(
        encoder, transforming(lookup, version, threads), version, threads, context.config.encoder.embed_batch
    )
    with arrow_batch(spark, _RECORDS):
        context.rows["embeddings"], _ = write_mapped(
            context, "embeddings", vectorized_rows(context), function, columns=READ
        )
    return context.rows["embeddings"]


def _embedding(
    folder: SideFolder, transform: ArrowFunction, version: str, threads: int, batch_size: int
) -> ArrowFunction:
    """Instances to rows of `embeddings`."""

    def embedding(batches: Batches) -> Iterator[pa.RecordBatch]:
        from xmcspark.neural.device import torch_threads
        from xmcspark.neural.embed import embed_texts

        device = device_of_task()
        for batch in batches:
            encoder = opened_encoder(str(folder.path()), version)
            texts = [text or "" for text in batch.column("text").to_pylist()]
            with torch_threads(threads):
                E = embed_texts(encoder, texts, batch=batch_size, device=device)
            (rows,) = transform(iter([batch]))
            columns = [*(rows.column(name) for name in _NAMES[:-1]), vector_lists(E)]
            yield pa.record_batch(columns, names=_NAMES)

    return embedding


def device_of_task() -> Device:
    """The GPU that Spark has given this task (spark.task.resource.gpu.amount), else the CPU: tasks that take a GPU by
    themselves would share one without knowing."""
    from pyspark import TaskContext

    from xmcspark.neural.device import CPU, chosen_device

    task = TaskContext.get()
    given = {} if task is None else task.resources()
    if "gpu" not in given:
        return CPU
    return chosen_device(EncoderSettings(device="cuda"), int(given["gpu"].addresses[0]))


def vector_lists(E: np.ndarray) -> pa.Array:
    """Rows of a dense matrix as lists of floats."""
    offsets = np.arange(0, E.size + 1, E.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(E.ravel()))


@lru_cache(maxsize=1)
def opened_encoder(path: str, version: str) -> TextEncoder:
    """One for each process; `version` tells encoders apart that lie at the same place one after the other."""
    from xmcspark.neural.encoder import TextEncoder

    return TextEncoder.load(path)
