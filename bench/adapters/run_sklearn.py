"""scikit-learn: TF-IDF as a FeatureUnion of TfidfVectorizers, joined and normalised again. It has no threads
for this."""

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import normalize
from stopwatch import WARM_UP, run_job


def main(job):
    if not job.wants("tfidf_fit", "tfidf_transform", "tfidf_fit_transform", "tfidf_one_ms"):
        return
    texts = job.texts("train")
    union = FeatureUnion([(str(i), vectorizer(**v)) for i, v in enumerate(job.vectorizers)])
    joined(union.fit_transform(texts[:WARM_UP]))
    if job.wants("tfidf_fit_transform"):
        job.measure("tfidf_fit_transform", lambda: joined(union.fit_transform(texts)))
    job.measure("tfidf_fit", lambda: union.fit(texts))
    X = job.measure("tfidf_transform", lambda: joined(union.transform(texts)))
    job.measure_one_by_one("tfidf_one_ms", lambda text: joined(union.transform([text])), texts)
    if job.save_features:
        for name, matrix in (("X", X), ("Xt", joined(union.transform(job.texts("test"))))):
            matrix.sort_indices()
            sp.save_npz(job.scratch / f"{name}.npz", matrix, compressed=False)


def vectorizer(analyzer, ngrams):
    return TfidfVectorizer(analyzer=analyzer, ngram_range=tuple(ngrams), dtype=np.float32)


def joined(matrix):
    return normalize(matrix.tocsr(), copy=False)


run_job(main)
