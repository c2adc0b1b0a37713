"""PECOS XR-Linear: its own TF-IDF, PIFA, hierarchical k-means, matchers and beam search, with its defaults
(16-way, leaves of 100, 20 iterations, squared hinge, threshold 0.1). Predicts with the model saved and
re-loaded for prediction, since one fresh from training is about ten times slower."""

import numpy as np
import scipy.sparse as sp
from pecos.utils.featurization.text.vectorizers import Tfidf
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from stopwatch import WARM_UP, folder_mb, ranked, run_job

AFTER_TREE = ("train", "predict_batch", "predict_one_ms")


def main(job):
    if job.wants("tfidf_fit", "tfidf_transform", "tfidf_one_ms"):
        text(job)
    if job.wants("pifa", "tree", *AFTER_TREE):
        train(job)
    if job.wants(*AFTER_TREE):
        predict(job)


def text(job):
    texts = job.texts("train")
    Tfidf.train(texts[:WARM_UP], text_settings(job)).predict(texts[:WARM_UP], threads=job.threads)
    vectorizer = job.measure("tfidf_fit", lambda: Tfidf.train(texts, text_settings(job)))
    job.measure("tfidf_transform", lambda: vectorizer.predict(texts, threads=job.threads))
    job.measure_one_by_one("tfidf_one_ms", lambda t: vectorizer.predict([t], threads=1), texts)


def text_settings(job):
    """Made anew for each call: PECOS changes what it is given."""
    vectorizers = [
        {"analyzer": v["analyzer"], "ngram_range": tuple(v["ngrams"]), "threads": job.threads}
        for v in job.vectorizers
    ]
    return {"threads": job.threads, "base_vect_configs": vectorizers}


def train(job):
    X, Y = job.matrix("X"), job.matrix("Y")
    chain = tree(job, X, Y)
    if not job.wants(*AFTER_TREE):
        return
    by_column = Y.tocsc()
    settings = {"threshold": 0.1, "threads": job.threads, **job.options.get("train", {})}
    # No beam here: its default of 20 nodes per row is what MAN negatives are taken from, as xmcspark does.
    trained = job.measure("train", lambda: XLinearModel.train(X, by_column, C=chain, **settings), again=False)
    trained.save(str(job.scratch / "model"))
    job.facts["model_mb"] = folder_mb(job.scratch / "model")


def tree(job, X, Y):
    """Its cluster chain, or None if only the label features were asked for."""
    if job.wants("pifa"):
        plain = {"normalized_Y": False, "threads": job.threads}  # paper 1, eq. 1, as everybody here
        job.measure("pifa", lambda: LabelEmbeddingFactory.create(Y, X, **plain))
    if not job.wants("tree", *AFTER_TREE):
        return None
    Z = job.matrix("Z")
    chain = job.measure("tree", lambda: Indexer.gen(Z, threads=job.threads, seed=job.seed))
    leaves = sp.csr_matrix(chain[-1])
    np.save(job.scratch / "leaves.npy", leaves.indices[leaves.indptr[:-1]].astype(np.int32))
    return chain


def predict(job):
    loaded = XLinearModel.load(str(job.scratch / "model"), is_predict_only=True)
    Xt = job.matrix("Xt")
    search = {"beam_size": job.beam, "only_topk": job.top_k}
    found = job.measure("predict_batch", lambda: loaded.predict(Xt, threads=job.threads, **search))
    np.save(job.scratch / "top.npy", ranked(found, job.top_k))
    rows = [Xt[i] for i in range(min(Xt.shape[0], 2000))]
    job.measure_one_by_one("predict_one_ms", lambda row: loaded.predict(row, threads=1, **search), rows)


run_job(main)
