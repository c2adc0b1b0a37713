"""The trial of an augmentation on Spark: a bounded sample of the training instances, with the texts of their labels,
goes to one task, which trains with and without it (trial.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from xmcspark.config.configuration import from_mapping
from xmcspark.labels.label_sampling import row_stays
from xmcspark.labels.trial import Trial, try_augmentation
from xmcspark.matchers.exclusion_spark import with_excluded
from xmcspark.matchers.targets import select
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.direct_tables import Batches, SomeRows, rows_of_table
from xmcspark.store.session import threads_of_few
from xmcspark.store.side_files import SideFolder, send_folder
from xmcspark.store.stage import Context

_SALT = 0x7A1  # another choice of rows than that of training on a sample


def tried(context: Context) -> Trial:
    """What the trial found, on `augment.trial_rows` instances or so."""
    config, uri = context.config, context.scratch("trial")
    share = min(1.0, config.augment.trial_rows / max(1, int(context.noted("corpus")["train_instances"])))
    keep = partial(_in_sample, share, config.seed ^ _SALT)
    rows = SomeRows(rows_of_table(context, "instances", "train"), ("id",), keep)
    chosen = rows.map(("id", "text", "labels"), _as_they_are, "id string, text string, labels array<int>")
    with_excluded(context, chosen).write.mode("overwrite").parquet(f"{uri}/instances")
    sample = context.spark.read.parquet(f"{uri}/instances")
    used = sample.select(F.explode("labels").alias("id")).distinct()
    labels = context.read("labels").select("id", "text").join(used, "id", "left_semi")
    labels.write.mode("overwrite").parquet(f"{uri}/labels")
    folder = send_folder(context.spark, context.fs, uri, context.key)
    trial = partial(_trial, folder, config.to_json(), threads_of_few(context.spark, 1))
    found = context.spark.range(0, 1, 1, 1).mapInArrow(trial, "trial string").collect()
    return Trial(**json.loads(found[0]["trial"]))


def _in_sample(share: float, seed: int, batch: pa.RecordBatch) -> np.ndarray:
    return row_stays(text_hashes(batch.column("id")), share, seed)


def _as_they_are(batches: Batches) -> Batches:
    yield from batches


def _trial(
    folder: SideFolder, config_json: str, threads: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    config, place = from_mapping(json.loads(config_json)), folder.path()
    instances, labels = (pq.read_table(place / name) for name in ("instances", "labels"))
    labels = labels.sort_by("id")
    ids = labels["id"].to_numpy()
    trial = try_augmentation(
        instances["text"].to_pylist(),
        _numbered(instances["labels"], ids),
        labels["text"].to_pylist(),
        text_hashes(instances["id"].combine_chunks()),
        config,
        excluded=_numbered(instances["excluded"], ids),
        threads=threads,
    )
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(trial.facts())])], names=["trial"])


def _numbered(labels: pa.ChunkedArray, ids: np.ndarray) -> Csr:
    """Labels by their place among `ids`, which are increasing; others are left out."""
    given = csr_of_lists(labels, None, 2**31 - 1, "labels")
    known = select(given, np.isin(given.indices, ids))
    places = np.searchsorted(ids, known.indices).astype(np.int32)
    return Csr(known.indptr, places, known.data, (known.shape[0], len(ids)))
