"""Predictions from a bundle, without Spark: texts in, ranked labels out, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.members import Members, fused
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.serving.bundle import MANIFEST, read_manifest
from xmcspark.serving.explain import Step, path_steps
from xmcspark.serving.label_names import LabelNames
from xmcspark.sparse.csr import Csr
from xmcspark.text import Tfidf


class Answer(NamedTuple):
    """One predicted label."""

    key: str
    score: float
    text: str
    label: int


@dataclass(frozen=True)
class MemberPath:
    """The way to a label in one tree of the ensemble."""

    member: int
    score: float  # of the label, as search gives it wherever its beam goes through this path
    steps: list[Step]

    @property
    def margin(self) -> float:
        """The margins of the path added up: its score before any transform."""
        total = np.float32(0)
        for step in self.steps:
            total += np.float32(step.margin)
        return float(total)


class Predictor:
    """An open bundle. `predict` may be called from several threads."""

    def __init__(self, vectorizer: Tfidf, members: Members, names: LabelNames, beam: int, width: int):
        self.vectorizer, self.members, self.names, self.beam = vectorizer, members, names, beam
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

    def search(self, texts: Any, k: int = 10, beam: int | None = None, threads: int = 1) -> Predictions:
        """The same as arrays of label ids and scores."""
        searchers = self.members.searchers
        sizes: dict[str, Any] = {
            "beam": beam or self.beam,
            "top_k": k if len(searchers) == 1 else max(k, self.width),
        }
        if isinstance(texts, (list, tuple)) and len(texts) == 1:  # no overhead, and the same answer
            row = self.vectorizer.transform_one(texts[0])
            found = [searcher.predict_one(*row, **sizes) for searcher in searchers]
        else:
            X = self.vectorizer.rows(texts)
            found = [searcher.predict(X, **sizes, threads=threads) for searcher in searchers]
        return fused(found, self.members.fusion).top(k)

    def tfidf(self, texts: Sequence[str]) -> sp.csr_matrix:
        """The texts as the model sees them: a row each, a column for each feature; see `gram`."""
        return self.vectorizer.transform(texts)

    def gram(self, feature: int) -> str:
        """The words or characters that a feature stands for."""
        return self.vectorizer.gram(feature)[1]

    def explain(self, text: str, label: int | str) -> list[MemberPath]:
        """Why `text` gets a label (id or key), for each tree of the ensemble: what each feature adds to each matcher
        on the way from the root to the label."""
        number = self.names.label(label) if isinstance(label, str) else int(label)
        features, values = self.vectorizer.transform_one(text)
        row = np.array([0, len(features)], np.int64)
        X = Csr(row, features, values, (1, self.vectorizer.n_features))
        paths = []
        for member, searcher in enumerate(self.members.searchers):
            steps = path_steps(searcher, features, values, number)
            wanted = sp.csr_matrix(([np.float32(1)], ([0], [number])), shape=(1, number + 1))
            paths.append(MemberPath(member, float(searcher.score(X, wanted).data[0]), steps))
        return paths


def load(folder: str | Path) -> Predictor:
    """Opens a published bundle; files are mapped into memory, not read, so its size does not matter."""
    return open_bundle(Path(folder))


def open_bundle(folder: Path, linked: bool = False) -> Predictor:
    """As `load`; `linked` as in `read_manifest`."""
    settings = read_manifest(folder, linked)["settings"]
    try:
        scoring = Scoring(settings["transform"], settings["combine"])
        members, fusion = int(settings["members"]), str(settings["fusion"])
        beam, width = int(settings["beam"]), int(settings["top_k"])
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise InputError(
            f"{folder / MANIFEST}: its settings are not those of this release ({error}): publish the run again"
        ) from error
    return Predictor(
        Tfidf.load(folder / "tfidf"),
        Members.load(folder / "model", members, scoring, fusion),
        LabelNames.load(folder / "labels"),
        beam,
        width,
    )
