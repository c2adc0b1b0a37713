"""A small bundle without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xmcspark.corpus.synthetic import generate
from xmcspark.labels.features import pifa
from xmcspark.matchers.train import train_matchers
from xmcspark.serving.bundle import write_manifest
from xmcspark.serving.label_names import LabelNames
from xmcspark.text import Tfidf
from xmcspark.tree.build import build_tree

LABELS = 80


def train_small() -> tuple[Any, Tfidf, list[Any]]:
    """(data, TF-IDF, two models from two seeds, of two levels of clusters)."""
    data = generate(600, LABELS, seed=2)
    tfidf = Tfidf()
    X = tfidf.fit_transform(data.train.texts)
    trees = [build_tree(pifa(X, data.train.Y), branching=4, max_leaf=8, seed=seed) for seed in range(2)]
    return data, tfidf, [train_matchers(X, data.train.Y, tree) for tree in trees]


def write_bundle(trained: Any, folder: Path, members: int = 1, transform: str = "l3-hinge") -> Path:
    data, tfidf, models = trained
    tfidf.save(folder / "tfidf")
    for number, model in enumerate(models[:members]):
        model.searcher.save(folder / "model" / str(number))
    keys = pa.array([f"k{label}" for label in range(LABELS)])
    LabelNames.of(np.arange(LABELS, dtype=np.int32), keys, data.label_texts).save(folder / "labels")
    settings = {"members": members, "fusion": "average", "beam": 10, "top_k": 10}
    write_manifest(folder, {**settings, "transform": transform, "combine": "product"})
    return folder
