"""Extreme multi-label classification: from text and clicks to ranked labels.

tfidf = Tfidf()
X = tfidf.fit_transform(texts)
tree = build_tree(pifa(X, Y))
model = train_matchers(X, Y, tree)
best = search(model, tfidf.transform(["red running shoes"]), top_k=10)
"""

from xmcspark.errors import ConfigError, InputError
from xmcspark.labels.features import combine, concatenate, label_text_features, pifa
from xmcspark.matchers.calibration import Platt, fit_platt
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.presets import PRESETS, train_preset
from xmcspark.matchers.search import Searcher, search
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.train import train_matchers
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.spgemm import spgemm
from xmcspark.text import Tfidf, Vectorizer
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree

__all__ = [
    "PRESETS",
    "ConfigError",
    "InputError",
    "LabelProfile",
    "LabelTree",
    "Platt",
    "Predictions",
    "Searcher",
    "Tfidf",
    "TrainSettings",
    "TreeModel",
    "Vectorizer",
    "build_tree",
    "combine",
    "concatenate",
    "evaluate",
    "fit_platt",
    "fuse",
    "label_text_features",
    "pifa",
    "search",
    "spgemm",
    "train_matchers",
    "train_preset",
]
