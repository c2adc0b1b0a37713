"""Texts to rows of X on all executors: the text model is made once on the driver, opened by memory map once in each
Python process, and applied to one Arrow batch after the other."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xmcspark.labels.mixup import mixed_rows
from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.direct_tables import Rows
from xmcspark.store.direct_writing import Measure, empty_rows_of, entries_of, write_mapped
from xmcspark.store.session import task_threads
from xmcspark.store.side_files import SideFolder, local_copy, send_folder
from xmcspark.store.stage import Context
from xmcspark.store.tables import TABLES
from xmcspark.text.tfidf import Tfidf
from xmcspark.text.vocabulary_spark import ArrowFunction, Batches

LOOKUP = "bundle/tfidf"
_MOST_RUNS = 1 << 14
_CARRIED = ("labels", "targets", "relevance", "row_hash")
_MIXTURE = ("partner_text", "mix")
READ = ("id", "split", "text", *_CARRIED, *_MIXTURE)  # of instances, what rows are made of
_NAMES = TABLES["features"].names
_MEASURES = {
    "nnz": entries_of("indices"),
    "empty": empty_rows_of("indices"),
    # Values are positive.
    "largest": Measure(
        "max(array_max(values))",
        lambda batch: pc.max(batch.column("values").flatten()).as_py() or 0.0,
        largest=True,
    ),
}


def write_lookup(context: Context, features: int, documents: int) -> None:
    """Saves the text model of the run's `vocabulary` table. In the memory of the driver: some 100 bytes a feature."""
    model = _model(context, features, documents)
    uri = context.folder(LOOKUP)
    if local := context.fs.local_path(uri):
        context.fs.delete(uri)
        model.save(local)
        return
    with tempfile.TemporaryDirectory(prefix="xmcspark-tfidf-") as folder:
        model.save(Path(folder) / "tfidf")
        context.fs.upload(Path(folder) / "tfidf", uri)


def _model(context: Context, features: int, documents: int) -> Tfidf:
    uri, settings = context.run.table("vocabulary"), context.config.text
    copy = local_copy(context.fs, uri)
    rows = pq.read_table(copy, read_dictionary=["vectorizer"])
    if context.fs.local_path(uri) is None:
        shutil.rmtree(copy.parent)
    rows = _by_feature(rows if pc.all(rows["active"]).as_py() else rows.filter(rows["active"]))
    of = pc.index_in(rows["vectorizer"].cast(pa.string()), value_set=pa.array(settings.names()))
    return Tfidf.from_vocabulary(
        settings,
        vectorizer=of.to_numpy(),
        gram=rows["gram"],
        df=rows["df"].to_numpy(),
        documents=documents,
        feature=rows["feature"].to_numpy(),
        idf=rows["idf"].to_numpy(),
        size=features,
    )


def _by_feature(rows: pa.Table) -> pa.Table:
    """Rows of the vocabulary in the order of features as far as that is to be had for nothing: tasks wrote them in
    runs, and runs can be put in order without being copied."""
    if not rows.num_rows:
        return rows
    feature = rows["feature"].to_numpy()
    first = np.concatenate([[0], np.flatnonzero(np.diff(feature) != 1) + 1])
    if len(first) > _MOST_RUNS:
        return rows
    sizes = np.diff(np.append(first, len(feature)))
    order = np.argsort(feature[first])
    runs = zip(first[order].tolist(), sizes[order].tolist(), strict=True)
    return pa.concat_tables([rows.slice(start, size) for start, size in runs])


def write_features(context: Context, instances: Rows) -> dict[str, float]:
    """Writes the `features` of all instances; returns what was seen on the way: non-zeros, rows without any, the
    largest value."""
    folder = send_folder(context.spark, context.fs, context.folder(LOOKUP), context.key)
    transform = transforming(folder, uuid.uuid4().hex, task_threads(context.spark))
    context.rows["features"], found = write_mapped(
        context,
        "features",
        instances,
        transform,
        _MEASURES,
        columns=READ,
    )
    return {"nnz": int(found["nnz"]), "empty": int(found["empty"]), "largest": found["largest"]}


def transforming(folder: SideFolder, version: str, threads: int) -> ArrowFunction:
    """Instances to rows of `features`."""

    def transform(batches: Batches) -> Iterator[pa.RecordBatch]:
        model = _opened(str(folder.path()), version, threads)
        for batch in batches:
            indices, values = lists_of_csr(_rows(model, batch))
            found = {
                **{name: batch.column(name) for name in batch.schema.names},
                "indices": indices,
                "values": values,
                "row_key": pa.array(text_hashes(batch.column("id"))),
            }
            yield pa.record_batch([found[name] for name in _NAMES], names=_NAMES)

    return transform


def _rows(model: Tfidf, batch: pa.RecordBatch) -> Csr:
    X, mix = model.rows(batch.column("text")), batch.column("mix")
    if mix.null_count == len(mix):
        return X
    share = mix.fill_null(1.0).to_numpy(zero_copy_only=False).astype(np.float32)
    return mixed_rows(X, model.rows(batch.column("partner_text").fill_null("")), share)


@lru_cache(maxsize=1)
def _opened(path: str, version: str, threads: int) -> Tfidf:
    """`version` tells models apart that lie at the same place one after the other: processes outlive stages."""
    return Tfidf.load(path, threads=threads)
