"""Small corpora on disk, and the corpus stage run over them."""

import pyarrow as pa
import pyarrow.parquet as pq

from xmcspark.corpus.corpus_spark import STAGE
from xmcspark.store.digest import table_digest
from xmcspark.store.stage import read_table

INT = pa.int32()


def write_rows(path, rows, labels=INT, relevance=False):
    """Rows (id, text, labels[, relevance]) as one Parquet file."""
    columns = {
        "id": pa.array([row[0] for row in rows], pa.string()),
        "text": pa.array([row[1] for row in rows], pa.string()),
        "labels": pa.array([row[2] for row in rows], pa.list_(labels)),
    }
    if relevance:
        columns["relevance"] = pa.array([row[3] for row in rows], pa.list_(pa.float32()))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def write_labels(path, texts, kind=INT):
    """Labels as {id: text}."""
    columns = {"id": pa.array(list(texts), kind), "text": pa.array(list(texts.values()), pa.string())}
    pq.write_table(pa.table(columns), path)
    return path


def run_corpus(make_context, *overrides, run="test", base=None):
    context = make_context(STAGE, *overrides, run=run, base=base)
    STAGE.run(context)
    return context


def table(context, name):
    return read_table(context.spark, context.run, name).collect()


def instances(context):
    """{(split, id): row}"""
    return {(row["split"], row["id"]): row for row in table(context, "instances")}


def labels(context):
    """{key: row}"""
    return {row["key"]: row for row in table(context, "labels")}


def digests(context):
    return [
        table_digest(read_table(context.spark, context.run, name))
        for name in ("instances", "labels", "exclude")
    ]
