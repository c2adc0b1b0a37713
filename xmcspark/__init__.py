"""Extreme multi-label classification: from text and clicks to ranked labels.

model = load("runs/.../bundle")
answers = model.predict(["red running shoes"], k=10)

tfidf = Tfidf()
X = tfidf.fit_transform(texts)
tree = build_tree(pifa(X, Y))
model = train_matchers(X, Y, tree)
best = search(model, tfidf.transform(["red running shoes"]), top_k=10)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from xmcspark.quality.comparison import compare
    from xmcspark.quality.label_profile import LabelProfile
    from xmcspark.quality.metrics import evaluate
    from xmcspark.serving.predictor import load
    from xmcspark.sparse.spgemm import spgemm
    from xmcspark.text import Tfidf, Vectorizer
    from xmcspark.tree.build import build_tree
    from xmcspark.tree.label_tree import LabelTree

# Where each name lives. A name is imported when it is first used: a process that only serves loads no training code.
_HOME = {
    "PRESETS": "matchers.presets",
    "ConfigError": "errors",
    "InputError": "errors",
    "LabelProfile": "quality.label_profile",
    "LabelTree": "tree.label_tree",
    "Platt": "matchers.calibration",
    "Predictions": "matchers.predictions",
    "Searcher": "matchers.search",
    "Tfidf": "text",
    "TrainSettings": "matchers.settings",
    "TreeModel": "matchers.model",
    "Vectorizer": "text",
    "build_tree": "tree.build",
    "combine": "labels.features",
    "compare": "quality.comparison",
    "concatenate": "labels.features",
    "evaluate": "quality.metrics",
    "fit_platt": "matchers.calibration",
    "fuse": "matchers.ensemble",
    "label_text_features": "labels.features",
    "load": "serving.predictor",
    "pifa": "labels.features",
    "search": "matchers.search",
    "spgemm": "sparse.spgemm",
    "train_matchers": "matchers.train",
    "train_preset": "matchers.presets",
}

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
    "compare",
    "concatenate",
    "evaluate",
    "fit_platt",
    "fuse",
    "label_text_features",
    "load",
    "pifa",
    "search",
    "spgemm",
    "train_matchers",
    "train_preset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"xmcspark.{_HOME[name]}"), name)
    globals()[name] = value
    return value
