"""The whole way from text to ranked labels on real datasets, where there are any.

XMCSPARK_DATA names a folder of datasets (train, test and labels.parquet each); without it these tests skip."""

import os
from pathlib import Path

import numpy as np
import pytest

from xmcspark import LabelProfile, Tfidf, build_tree, evaluate, pifa, search, train_matchers
from xmcspark.corpus.dataset import read_dataset

ROWS = 100_000  # of the training split: a smaller share of yso-finna-en says little about its 25,000 labels


def datasets() -> list[Path]:
    root = os.environ.get("XMCSPARK_DATA")
    return sorted(path.parent for path in Path(root).glob("*/train.parquet")) if root else []


@pytest.mark.skipif(not datasets(), reason="set XMCSPARK_DATA to a folder of datasets to run this")
@pytest.mark.parametrize("folder", datasets(), ids=lambda folder: folder.name)
def test_a_real_dataset_is_learned_far_beyond_its_most_frequent_labels(folder):
    data = read_dataset(folder)
    Y = data.train.Y[:ROWS]
    tfidf = Tfidf(threads=2)
    X = tfidf.fit_transform(data.train.texts[:ROWS])
    model = train_matchers(X, Y, build_tree(pifa(X, Y), threads=2), threads=2)
    found = search(model, tfidf.transform(data.test.texts), top_k=15, threads=2)
    if data.exclude is not None:
        found = found.exclude(data.exclude)
    rows = evaluate(found, data.test.Y, LabelProfile.from_training(Y), ks=(1, 5), metrics=("P",))
    precision = {row.k: row.value for row in rows if row.bin == "all"}
    frequent = np.asarray(Y.sum(axis=0)).ravel().argmax()
    by_frequency = data.test.Y[:, [frequent]].mean()
    assert precision[1] > 3 * by_frequency
    assert precision[1] > 0.2
    assert precision[5] > 0.1
