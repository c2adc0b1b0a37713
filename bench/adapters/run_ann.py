"""One library of approximate search, for bench.unidec_search: a graph of 16 neighbours a label, made by one thread,
saved, opened again (mapped where the library can), and walked as far as the recall that was asked for takes on sample
queries. Runs in the environment `ann`, so it needs numpy and the library alone.

    python run_ann.py JOB

JOB is JSON: library, recall, walks to try, k, and a folder with labels.npy, sample.npy, queries.npy, right.npy."""

import json
import sys
import time
from pathlib import Path

import numpy as np

NEIGHBOURS, BREADTH = 16, 100
ALONE, BATCH = 200, 1024


class Faiss:
    maps = True

    def __init__(self):
        import faiss

        faiss.omp_set_num_threads(1)
        self._faiss = faiss

    def make(self, labels, place):
        graph = self._faiss.IndexHNSWFlat(labels.shape[1], NEIGHBOURS, self._faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = BREADTH
        graph.add(labels)
        self._faiss.write_index(graph, place)

    def open(self, place, width):
        self._graph = self._faiss.read_index(place, self._faiss.IO_FLAG_MMAP_IFC)

    def search(self, queries, k, walk):
        how = self._faiss.SearchParametersHNSW(efSearch=walk)
        return self._graph.search(queries, k, params=how)[1]


class Hnswlib:
    maps = False

    def make(self, labels, place):
        graph = self._new(labels.shape[1])
        graph.init_index(len(labels), ef_construction=BREADTH, M=NEIGHBOURS)
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
    maps = True

    def make(self, labels, place):
        graph = self._new(labels.shape[1])
        graph.add(np.arange(len(labels)), labels, threads=1)
        graph.save(place)

    def open(self, place, width):
        self._graph = self._new(width)
        self._graph.view(place)

    def search(self, queries, k, walk):
        self._graph.expansion_search = walk
        found = self._graph.search(queries, k, threads=1).keys
        return np.atleast_2d(found).astype(np.int64)

    def _new(self, width):
        from usearch.index import Index

        return Index(ndim=width, metric="ip", dtype="f32", connectivity=NEIGHBOURS, expansion_add=BREADTH)


LIBRARIES = {"faiss": Faiss, "hnswlib": Hnswlib, "usearch": Usearch}


def recall(found, right):
    hits = sum(len(np.intersect1d(mine, others)) for mine, others in zip(found, right, strict=True))
    return hits / right.size


def private_mb():
    """Memory of this process that no file backs."""
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("RssAnon"))
    return int(line.split()[1]) * 1024 / 1e6


def exact(labels, queries, k):
    return np.argsort(-(queries @ labels.T), axis=1, kind="stable")[:, :k]


def measured(job):
    folder, k = Path(job["folder"]), job["k"]
    labels, sample, queries, right = (
        np.load(folder / f"{name}.npy") for name in ("labels", "sample", "queries", "right")
    )
    library, place = LIBRARIES[job["library"]](), str(folder / f"{job['library']}.index")
    started = time.perf_counter()
    library.make(labels, place)
    seconds = time.perf_counter() - started
    best, width = exact(labels, sample, k), labels.shape[1]
    del labels
    before = private_mb()
    library.open(place, width)
    opened = private_mb() - before
    walk = next(
        (w for w in job["walks"] if recall(library.search(sample, k, w), best) >= job["recall"]),
        job["walks"][-1],
    )
    started = time.perf_counter()
    for query in queries[:ALONE]:
        library.search(query[None], k, walk)
    alone = len(queries[:ALONE]) / (time.perf_counter() - started)
    started = time.perf_counter()
    found = [library.search(queries[at : at + BATCH], k, walk) for at in range(0, len(queries), BATCH)]
    batched = len(queries) / (time.perf_counter() - started)
    return {
        "make_s": seconds,
        "file_mb": Path(place).stat().st_size / 1e6,
        "private_mb": opened,
        "maps": library.maps,
        "walk": walk,
        "recall": recall(np.concatenate(found), right),
        "qps_alone": alone,
        "qps_batched": batched,
    }


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.argv[1]))))
