"""xmcspark itself, through the same public functions a data scientist would call: Tfidf, pifa, build_tree,
train_matchers and the packed searcher. The settings are the defaults, the threshold the peers' 0.1."""

import math
import os
import sys
from dataclasses import asdict

import numpy as np
import scipy.sparse as sp
from stopwatch import WARM_UP, folder_mb, run_job

sys.path.insert(0, os.environ.get("XMCSPARK_ROOT", "."))

AFTER_TREE = ("train", "predict_batch", "predict_one_ms")


def main(job):
    if job.wants("tfidf_fit", "tfidf_transform", "tfidf_fit_transform", "tfidf_one_ms"):
        text(job)
    if job.wants("pifa", "tree", *AFTER_TREE):
        train(job)
    if job.wants(*AFTER_TREE):
        predict(job)


def text(job):
    from xmcspark.text.tfidf import Tfidf, Vectorizer

    def new_vectorizer():
        parts = [Vectorizer(v["analyzer"], tuple(v["ngrams"])) for v in job.vectorizers]
        return Tfidf(parts, threads=job.threads)

    def fitted(texts):
        """Ready to transform: the first text makes the lookup table, which belongs to fitting."""
        vectorizer = new_vectorizer().fit(texts)
        vectorizer.transform_one(texts[0])
        return vectorizer

    texts = job.texts("train")
    fitted(texts[:WARM_UP]).transform(texts[:WARM_UP])
    if job.wants("tfidf_fit_transform"):
        job.measure("tfidf_fit_transform", lambda: new_vectorizer().fit_transform(texts))
    vectorizer = job.measure("tfidf_fit", lambda: fitted(texts))
    X = job.measure("tfidf_transform", lambda: vectorizer.transform(texts))
    job.measure_one_by_one("tfidf_one_ms", vectorizer.transform_one, texts)
    if job.save_features:
        for name, matrix in (("X", X), ("Xt", vectorizer.transform(job.texts("test")))):
            sp.save_npz(job.scratch / f"{name}.npz", matrix, compressed=False)


def train(job):
    from xmcspark.matchers.settings import TrainSettings  # before the timing, like every import here
    from xmcspark.matchers.train import train_matchers

    X, Y = job.matrix("X"), job.matrix("Y")
    tree = build(job, X, Y)
    if not job.wants(*AFTER_TREE):
        return
    settings = TrainSettings(threshold=0.1, seed=job.seed, **job.options.get("train", {}))

    def trained():
        """Ready to search: packing belongs to training."""
        model = train_matchers(X, Y, tree, settings, threads=job.threads)
        return model if model.searcher else None

    model = job.measure("train", trained, again=False)
    model.searcher.save(job.scratch / "model")
    job.facts["model_mb"] = folder_mb(job.scratch / "model")


def build(job, X, Y):
    """The label tree, or None if only the label features were asked for."""
    if job.wants("pifa"):
        from xmcspark.labels.features import pifa

        job.measure("pifa", lambda: pifa(X, Y, threads=job.threads))
    if not job.wants("tree", *AFTER_TREE):
        return None
    from xmcspark.tree.build import build_tree_timed

    Z = job.matrix("Z")
    settings = {"seed": job.seed, **job.options.get("tree", {})}
    if settings.get("shape") == "pecos":
        settings["shape"] = pecos_shape(Z.shape[0])
    tree, levels = job.measure("tree", lambda: build_tree_timed(Z, threads=job.threads, **settings))
    job.facts["tree_levels"] = [asdict(level) for level in levels]
    np.save(job.scratch / "leaves.npy", leaf_of_label(tree))
    return tree


def pecos_shape(n_labels):
    """The clusters per level that PECOS makes by default: a power of two of leaves, 16 children a node."""
    sizes = [1 << (math.ceil(n_labels / 100) - 1).bit_length()]
    while sizes[0] > 16:
        sizes.insert(0, sizes[0] // 16)
    return tuple(sizes)


def leaf_of_label(tree):
    """The leaf of each label, from the children of the last level of nodes."""
    sizes = np.diff(tree.child_ptr[-1])
    leaves = np.empty(tree.n_labels, np.int32)
    leaves[tree.labels] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return leaves


def predict(job):
    from xmcspark.matchers.search import Searcher

    searcher = Searcher.load(job.scratch / "model")
    Xt = job.matrix("Xt")
    search = {"beam": job.beam, "top_k": job.top_k}
    found = job.measure("predict_batch", lambda: searcher.predict(Xt, threads=job.threads, **search))
    np.save(job.scratch / "top.npy", found.labels)
    cuts = Xt.indptr[1:-1]
    rows = list(zip(np.split(Xt.indices, cuts), np.split(Xt.data, cuts), strict=True))
    job.measure_one_by_one("predict_one_ms", lambda row: searcher.predict_one(*row, **search), rows)


run_job(main)
