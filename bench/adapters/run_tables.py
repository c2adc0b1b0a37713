"""The library alone, from the corpus in Parquet to a saved model, in one go: what somebody without Spark would run.
With tables, it also leaves what the job on Spark leaves (instances, features, label features and matchers as Parquet):
what the job takes beyond that is what Spark costs, and what that takes beyond the library is what the tables cost."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from run_spark import write_labels, write_split
from stopwatch import folder_mb, run_job

sys.path.insert(0, os.environ.get("XMCSPARK_ROOT", "."))

_GROUP = 1 << 16  # rows written at once


def main(job):
    folder = job.scratch / "corpus"
    folder.mkdir()
    for split, name in (("train", "Y"), ("test", "Yt")):
        write_split(folder / f"{split}.parquet", job.texts(split), job.matrix(name))
    write_labels(folder / "labels.parquet", job.matrix("Y").shape[1])
    model, clock = learn(job, folder)
    job.facts["sums"] = [{"step": "text_to_model", "peak_mb": 0.0, **clock.total()}]
    job.facts["stages"] = clock.laps
    job.facts["model_mb"] = folder_mb(job.scratch / "model")
    found = model.searcher.predict(job.matrix("Xt"), beam=job.beam, top_k=job.top_k, threads=job.threads)
    np.save(job.scratch / "top.npy", found.labels)


def learn(job, folder):
    """The model and what its parts took; the parts are named as the job's stages."""
    from xmcspark import Tfidf, Vectorizer, build_tree, pifa, train_matchers  # before the timing
    from xmcspark.matchers.settings import TrainSettings

    kept = job.options.get("tables", {}).get("kept", True)
    tables = Tables(job.scratch / "tables", job.threads) if kept else NoTables()
    threads, clock = job.threads, Clock()
    train, test, labels = (pq.read_table(folder / f"{name}.parquet") for name in ("train", "test", "labels"))
    tables.write("instances", lambda a, b: columns_of(train, a, b), len(train))
    tables.write("labels", lambda a, b: columns_of(labels, a, b), len(labels))
    clock.lap("corpus")

    parts = [Vectorizer(v["analyzer"], tuple(v["ngrams"])) for v in job.vectorizers]
    tfidf = Tfidf(parts, threads=threads)
    X = tfidf.fit_transform(train["text"])
    Xt = tfidf.transform(test["text"])
    tables.write("features", lambda a, b: lists(X, a, b) | columns_of(train, a, b, "labels"), len(train))
    tables.write("features-test", lambda a, b: lists(Xt, a, b), len(test))
    tfidf.save(job.scratch / "tfidf")
    clock.lap("vectorize")

    Y = matrix_of(train["labels"], len(labels))
    Z = pifa(X, Y, threads=threads)
    tables.write("label_features", lambda a, b: lists(Z, a, b), Z.shape[0])
    tree = build_tree(Z, threads=threads, seed=job.seed)
    clock.lap("index")

    model = train_matchers(X, Y, tree, TrainSettings(threshold=0.1, seed=job.seed), threads=threads)
    for level, matchers in enumerate(model.matchers):
        W = matchers.weights
        tables.write(f"matchers-{level}", lambda a, b, W=W: lists(W, a, b), W.shape[0])
    model.searcher.save(job.scratch / "model")
    clock.lap("train")
    return model, clock


class Clock:
    """Seconds of each part, and of all."""

    def __init__(self):
        self.laps, self._last = {}, (time.perf_counter(), time.process_time())
        self._first = self._last

    def lap(self, name):
        now = time.perf_counter(), time.process_time()
        self.laps[name] = now[0] - self._last[0]
        self._last = now

    def total(self):
        return {"wall_s": self._last[0] - self._first[0], "cpu_s": self._last[1] - self._first[1]}


class NoTables:
    """Leaves nothing but the model."""

    def write(self, name, columns, rows):
        pass


class Tables:
    """Writes as the job does: as many files at a time as there are slots, long lists not compressed."""

    def __init__(self, folder, threads):
        self._folder, self._threads = folder, threads

    def write(self, name, columns, rows):
        """`columns(a, b)`: rows a to b."""
        (self._folder / name).mkdir(parents=True)
        cuts = np.linspace(0, rows, self._threads + 1).astype(int)
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(lambda part: self._file(self._folder / name, columns, *part), pairwise(cuts)))

    def _file(self, folder, columns, first, last):
        writer = None
        for start in range(first, last, _GROUP):
            table = pa.table(columns(start, min(start + _GROUP, last)))
            if writer is None:
                long = [f"{c.name}.list.element" for c in table.schema if pa.types.is_list(c.type)]
                how = dict.fromkeys(long, "none") if long else "snappy"
                writer = pq.ParquetWriter(
                    folder / f"{first}.parquet", table.schema, compression=how, use_dictionary=False
                )
            writer.write_table(table)
        if writer is not None:
            writer.close()


def columns_of(table, first, last, *names):
    """Some rows of a table's columns, of all if none are named."""
    return {name: table[name].slice(first, last - first) for name in names or table.column_names}


def lists(matrix, first, last):
    """Rows of a CSR matrix as two columns of lists."""
    a, b = matrix.indptr[first], matrix.indptr[last]
    offsets = pa.array((matrix.indptr[first : last + 1] - a).astype(np.int32))
    parts = {"indices": matrix.indices[a:b], "values": matrix.data[a:b]}
    return {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in parts.items()}


def matrix_of(labels, columns):
    labels = labels.combine_chunks()
    indptr, indices = labels.offsets.to_numpy().astype(np.int64), labels.values.to_numpy()
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(labels), columns))


if __name__ == "__main__":
    run_job(main)
