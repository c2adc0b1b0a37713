"""Batches of like queries (paper 5, section 2.3.2, after NGAME): queries are clustered by embedding into clusters of
equal size, one cluster a batch, so that the labels of a query's neighbours are its hard negatives, and often its
positives."""

from __future__ import annotations

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.draws import hashed, streams
from xmcspark.sparse.csr import Csr
from xmcspark.tree.build import build_tree


def clustered_order(embeddings: np.ndarray, size: int, *, seed: int, threads: int = 1) -> np.ndarray:
    """int64: every query once, such that each `size` in a row are a cluster.

    What is left after the last whole cluster is at the end: queries chosen by hash, others for another seed, so that
    no query is always there. Clusters are those of a balanced label tree of one level, with queries for labels.
    """
    queries = len(embeddings)
    if size < 1:
        raise InputError(f"batches of {size} queries: give at least 1")
    every = np.arange(queries, dtype=np.int64)
    clusters = queries // size
    if clusters < 2:
        return every
    by_hash = np.argsort(hashed(streams(seed, "queries without a cluster", every), 0), kind="stable")
    clustered = np.sort(by_hash[: clusters * size])
    tree = build_tree(
        _as_csr(embeddings[clustered]), shape=(clusters,), centres="dense", seed=seed, threads=threads
    )
    return np.concatenate([clustered[tree.labels], np.sort(by_hash[clusters * size :])])


def query_batches(order: np.ndarray, size: int, *, least: int = 1, seed: int, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch, each `size` queries that follow each other in `order`, in an order of their own that
    follows from (seed, epoch). The last queries are a smaller batch, but of `least`: the one before gives it some."""
    starts = np.arange(0, len(order), size)
    starts[-1] = max(0, min(starts[-1], len(order) - least))
    parts = np.split(order, starts[1:])
    drawn = hashed(streams(seed, f"batches of epoch {epoch}", starts), 0)
    return [parts[i] for i in np.argsort(drawn, kind="stable")]


def _as_csr(dense: np.ndarray) -> Csr:
    """Every value of a dense array as an entry. The clustering knows no other form; zeros do no harm."""
    rows, width = dense.shape
    indptr = np.arange(rows + 1, dtype=np.int64) * width
    indices = np.tile(np.arange(width, dtype=np.int32), rows)
    return Csr(indptr, indices, np.ascontiguousarray(dense, np.float32).reshape(-1), (rows, width))
