"""One library of approximate search, for bench.unidec_search: a graph of 16 neighbours a label, made by one thread,
saved, opened by another process (mapped where the library can), and walked as far as the recall that was asked for
takes on sample queries. Runs in the environment `ann`, so it needs numpy and the library alone.

    python run_ann.py make|search JOB

JOB is JSON: library, neighbours and breadth of the graph, recall, walks to try, k, queries alone, queries of a batch,
and a folder with labels.npy, sample.npy, queries.npy and the exact answers, of_sample.npy and of_queries.npy."""

import json
import sys
import time
from pathlib import Path

import numpy as np


class Faiss:
    def __init__(self):
        import faiss

        faiss.omp_set_num_threads(1)
        self._faiss = faiss

    def make(self, labels, place, neighbours, breadth):
        graph = self._faiss.IndexHNSWFlat(labels.shape[1], neighbours, self._faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = breadth
        graph.add(labels)
        self._faiss.write_index(graph, place)

    def open(self, place, width):
        self._graph = self._faiss.read_index(place, self._faiss.IO_FLAG_MMAP_IFC)

    def search(self, queries, k, walk):
        how = self._faiss.SearchParametersHNSW(efSearch=walk)
        return self._graph.search(queries, k, params=how)[1]


class Hnswlib:
    def make(self, labels, place, neighbours, breadth):
        graph = self._new(labels.shape[1])
        graph.init_index(len(labels), ef_construction=breadth, M=neighbours)
        graph.add_items(labels, num_threads=1)
        graph.save_index(place)

    def open(self, place, width):
        self._graph = self._new(width)
        self._graph.load_index(place)
        self._graph.set_num_threads(1)

    def search(self, queries, k, walk):
        self._graph.set_ef(walk)
        return self._graph.knn_query(queries, k)[0].astype(np.int64)

    def _new(self, width):
        import hnswlib

        return hnswlib.Index("ip", width)


class Usearch:
    def make(self, labels, place, neighbours, breadth):
        graph = self._new(labels.shape[1], connectivity=neighbours, expansion_add=breadth)
        graph.add(np.arange(len(labels)), labels, threads=1)
        graph.save(place)

    def open(self, place, width):
        self._graph = self._new(width)
        self._graph.view(place)

    def search(self, queries, k, walk):
        self._graph.expansion_search = walk
        found = self._graph.search(queries, k, threads=1).keys
        return np.atleast_2d(found).astype(np.int64)

    def _new(self, width, **how):
        from usearch.index import Index

        return Index(ndim=width, metric="ip", dtype="f32", **how)


LIBRARIES = {"faiss": Faiss, "hnswlib": Hnswlib, "usearch": Usearch}


def recall(found, right):
    hits = sum(len(np.intersect1d(mine, others)) for mine, others in zip(found, right, strict=True))
    return hits / right.size


def private_mb():
    """Memory of this process that no file backs."""
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("RssAnon"))
    return int(line.split()[1]) * 1024 / 1e6


def make(job, library, place):
    labels = np.load(Path(job["folder"]) / "labels.npy")
    started = time.perf_counter()
    library.make(labels, place, job["neighbours"], job["breadth"])
    return {"make_s": time.perf_counter() - started, "file_mb": Path(place).stat().st_size / 1e6}


def search(job, library, place):
    names = ("sample", "queries", "of_sample", "of_queries")
    sample, queries, best, right = (np.load(Path(job["folder"]) / f"{name}.npy") for name in names)
    k, walks = job["k"], job["walks"]
    before = private_mb()
    library.open(place, queries.shape[1])
    opened = private_mb() - before
    walk = next((w for w in walks if recall(library.search(sample, k, w), best) >= job["recall"]), walks[-1])
    started = time.perf_counter()
    for query in queries[: job["alone"]]:
        library.search(query[None], k, walk)
    alone = len(queries[: job["alone"]]) / (time.perf_counter() - started)
    started = time.perf_counter()
    starts = range(0, len(queries), job["batch"])
    found = [library.search(queries[at : at + job["batch"]], k, walk) for at in starts]
    return {
        "private_mb": opened,
        "walk": walk,
        "recall": recall(np.concatenate(found), right),
        "qps_alone": alone,
        "qps_batched": len(queries) / (time.perf_counter() - started),
    }


if __name__ == "__main__":
    job = json.loads(sys.argv[2])
    index = str(Path(job["folder"], f"{job['library']}.index"))
    print(json.dumps({"make": make, "search": search}[sys.argv[1]](job, LIBRARIES[job["library"]](), index)))
