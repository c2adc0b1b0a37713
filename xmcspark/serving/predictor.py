"""Predictions from a bundle, without Spark: texts in, ranked labels out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xmcspark.matchers.members import Members, fused
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.serving.bundle import read_manifest
from xmcspark.serving.label_names import LabelNames
from xmcspark.text import Tfidf


class Answer(NamedTuple):
    """One predicted label."""

    key: str
    score: float
    text: str
    label: int


class Predictor:
    """An open bundle. `predict` may be called from several threads."""

    def __init__(self, tfidf: Tfidf, members: Members, names: LabelNames, beam: int, width: int):
        self.tfidf, self.members, self.names, self.beam = tfidf, members, names, beam
        self.width = width  # of the members' rankings when they are fused, as it was when they were evaluated

    def predict(self, texts: Sequence[str], k: int = 10, beam: int | None = None) -> list[list[Answer]]:
        """The `k` best labels of each text, best first."""
        found = self.search(texts, k, beam)
        return [
            [
                Answer(self.names.key(label), float(score), self.names.text(label), int(label))
                for label, score in zip(labels, scores, strict=True)
                if label >= 0
            ]
            for labels, scores in zip(found.labels, found.scores, strict=True)
        ]

    def search(self, texts: Sequence[str], k: int = 10, beam: int | None = None) -> Predictions:
        """The same as arrays of label ids and scores."""
        X = self.tfidf.transform(texts)
        width = k if len(self.members.searchers) == 1 else max(k, self.width)
        found = [s.predict(X, beam=beam or self.beam, top_k=width) for s in self.members.searchers]
        return fused(found, self.members.fusion).top(k)


def load(folder: str | Path) -> Predictor:
    """Opens a published bundle; files are mapped into memory, not read."""
    folder = Path(folder)
    settings = read_manifest(folder)["settings"]
    scoring = Scoring(settings["transform"], settings["combine"])
    return Predictor(
        Tfidf.load(folder / "tfidf"),
        Members.load(folder / "model", settings["members"], scoring, settings["fusion"]),
        LabelNames.load(folder / "labels"),
        settings["beam"],
        settings["top_k"],
    )
