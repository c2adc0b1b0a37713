"""The vectors of labels that UniDEC searches, in the stage train. They are made there and not with the encoder, because
what is searched, and how, may change without another fine-tuning, and because all executors can encode label texts:
a task takes whole shards of labels, and the driver puts their vectors, the classifier's beside them, into one mapped
file. Which texts share a shard follows from label ids alone, so vectors are the same for any partitions."""

from __future__ import annotations

import logging
import os
import tempfile
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.lib.format import open_memmap
from pyspark.sql import functions as F

from xmcspark.errors import InputError
from xmcspark.matchers.members import NEAREST
from xmcspark.neural.available import require_torch
from xmcspark.neural.embeddings_spark import ENCODER, device_of_task, opened_encoder, vector_lists
from xmcspark.store.direct_tables import ArrowFunction, Batches
from xmcspark.store.filesystem import joined
from xmcspark.store.progress import tell
from xmcspark.store.session import arrow_batch, slots_of, task_threads, threads_of_few
from xmcspark.store.side_files import SideFolder, local_copy, send_folder
from xmcspark.store.stage import Context

if TYPE_CHECKING:
    from xmcspark.neural.unidec.heads import Heads
    from xmcspark.neural.unidec.model import UnidecModel
    from xmcspark.neural.unidec.nearest import LabelIndex
    from xmcspark.neural.unidec.vectors import SearchSpace

log = logging.getLogger(__name__)

MODEL = "bundle/model"
TRAINED = "unidec"  # folder of the stage encode: heads and the classifier's vectors
_SHARD = 2048  # ids of labels whose texts are encoded together
_SAMPLE = 512  # training instances that an index is tuned on
_VECTORS, _ROWS = "label_vectors", "id int, vector array<float>"


def write_label_search(context: Context) -> None:
    """Writes what predict and the bundle search: labels that are active and have a training instance."""
    require_torch(f"method: {context.config.method}")
    from xmcspark.neural.unidec.model import UnidecModel
    from xmcspark.neural.unidec.search import VECTORS, LabelSearch
    from xmcspark.neural.unidec.vectors import LabelVectors, SearchSpace

    trained = local_copy(context.fs, joined(context.folder("encode"), TRAINED))
    model = UnidecModel.load(trained, local_copy(context.fs, context.folder(ENCODER)))
    space, settings = SearchSpace(model.heads, context.config.unidec.space), context.config.unidec
    labels = _searched_labels(context, model.trained)
    with tempfile.TemporaryDirectory(prefix="xmcspark-unidec-") as work:
        folder = Path(work) / NEAREST
        vectors = _vectors(context, model, space, labels, Path(work))
        identity = context.run.key_of_input("encode/")
        made = LabelVectors.write(folder / VECTORS, vectors, labels, identity)
        tell("train", f"index of {len(labels):,} labels")
        sample = _sample(context, len(labels), model.encoder.width)
        threads = _driver_threads(context)
        index = LabelSearch.over(folder, made, space, settings, sample=sample, threads=threads).index
        uri = joined(context.folder(MODEL), NEAREST)
        context.fs.delete(uri)
        context.fs.upload(folder, uri)
        context.note(unidec=_facts(index, space, folder))


def _searched_labels(context: Context, trained: np.ndarray) -> np.ndarray:
    """int64, increasing."""
    files = local_copy(context.fs, context.run.table("labels"))
    table = ds.dataset(files, format="parquet").to_table(columns=["id", "active"])
    active = table["id"].to_numpy()[table["active"].to_numpy(zero_copy_only=False)]
    labels = np.intersect1d(trained, active).astype(np.int64)
    if not len(labels):
        raise InputError(
            "no label that was trained is active: there is nothing to search; run corpus and encode again"
        )
    return labels


def _vectors(
    context: Context, model: UnidecModel, space: SearchSpace, labels: np.ndarray, work: Path
) -> np.ndarray:
    """float32 [labels, width], mapped: what executors made of the texts, then the classifier's rows."""
    from xmcspark.neural.unidec.vectors import SHARD, unit

    found = open_memmap(work / "vectors.npy", "w+", np.float32, (len(labels), space.width))
    at = 0
    if space.dual and model.heads.dual is not None:
        tell("train", f"vectors of {len(labels):,} label texts")
        at = model.heads.dual.width
        _fill_from_texts(context, labels, found[:, :at])
    if space.classifier and model.table is not None:
        for start in range(0, len(labels), SHARD):
            rows = labels[start : start + SHARD]
            found[start : start + len(rows), at:] = unit(model.table[rows])
    return found


def _fill_from_texts(context: Context, labels: np.ndarray, out: np.ndarray) -> None:
    uri = context.scratch(_VECTORS)
    spark, config = context.spark, context.config
    heads = joined(context.folder("encode"), TRAINED, "heads")
    function = _encoding(
        send_folder(spark, context.fs, context.folder(ENCODER), context.run.key_of_input(f"{ENCODER}/")),
        send_folder(spark, context.fs, heads, context.run.key_of_input("encode/")),
        uuid.uuid4().hex,
        task_threads(spark),
        config.encoder.embed_batch,
    )
    shard = F.floor(F.col("id") / F.lit(_SHARD)).cast("int").alias("shard")
    texts = context.read("labels").where("active").select("id", "text", shard)
    tasks = min(-(-int(labels[-1] + 1) // _SHARD), 3 * slots_of(spark))
    with arrow_batch(spark, _SHARD):
        rows = texts.repartition(tasks, "shard").sortWithinPartitions("shard", "id")
        rows.mapInArrow(function, _ROWS).write.mode("overwrite").parquet(uri)
    missing = np.ones(len(labels), bool)
    for batch in ds.dataset(local_copy(context.fs, uri), format="parquet").to_batches():
        ids = batch.column("id").to_numpy()
        place = np.minimum(np.searchsorted(labels, ids), len(labels) - 1)
        known = labels[place] == ids
        values = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
        out[place[known]] = values.reshape(len(ids), out.shape[1])[known]
        missing[place[known]] = False
    context.fs.delete(uri)
    if missing.any():
        raise InputError(
            f"{missing.sum()} of {len(labels)} trained labels are not in the table labels: run encode again"
        )


def _encoding(
    encoder: SideFolder, heads: SideFolder, version: str, threads: int, batch_size: int
) -> ArrowFunction:
    """Label texts to vectors of the dual head, one shard after the other."""

    def encoding(batches: Batches) -> Iterator[pa.RecordBatch]:
        from xmcspark.neural.device import torch_threads
        from xmcspark.neural.embed import embed_texts
        from xmcspark.neural.unidec.vectors import projected

        device = device_of_task()
        for ids, texts in _shards(batches):
            dual = _opened_heads(str(heads.path()), version).dual
            assert dual is not None
            with torch_threads(threads):
                opened = opened_encoder(str(encoder.path()), version)
                vectors = projected(dual, embed_texts(opened, texts, batch=batch_size, device=device))
            columns = [pa.array(ids, pa.int32()), vector_lists(vectors)]
            yield pa.record_batch(columns, names=["id", "vector"])

    return encoding


def _shards(batches: Batches) -> Iterator[tuple[list[int], list[str]]]:
    """Ids and texts of one shard after the other; a shard may begin in one batch and end in the next."""
    ids: list[int] = []
    texts: list[str] = []
    current = None
    for batch in batches:
        for label, text, shard in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if shard != current and ids:
                yield ids, texts
                ids, texts = [], []
            current = shard
            ids.append(label)
            texts.append(text or "")
    if ids:
        yield ids, texts


@lru_cache(maxsize=1)
def _opened_heads(path: str, version: str) -> Heads:
    from xmcspark.neural.unidec.heads import Heads

    return Heads.load(path)


def _sample(context: Context, labels: int, width: int) -> np.ndarray:
    """float32 [rows, width]: embeddings of some training instances, the same for any partitions; none if all labels are
    compared."""
    if context.config.unidec.searches_all(labels):
        return np.zeros((0, width), np.float32)
    rows = context.read("embeddings").where("split = 'train'").select("row_key", "row_hash", "embedding")
    some = rows.orderBy("row_key", "row_hash").limit(_SAMPLE).collect()
    return np.array([row["embedding"] for row in some], np.float32).reshape(len(some), width)


def _driver_threads(context: Context) -> int:
    local = (context.spark.sparkContext.master or "").startswith("local")
    return threads_of_few(context.spark, 1) if local else os.cpu_count() or 1


def _facts(index: LabelIndex, space: SearchSpace, folder: Path) -> dict[str, Any]:
    """For the manifest and the report."""
    from xmcspark.neural.unidec.nearest import NearestLabels

    measured = {"recall": index.recall, "walk": index.walk} if isinstance(index, NearestLabels) else {}
    return {
        "labels": len(index),
        "width": index.width,
        "heads": list(space.used),
        "search": "approximate" if measured else "exact",
        "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        **measured,
    }
