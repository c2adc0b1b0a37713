"""Predictions from a bundle, without Spark: texts in, ranked labels out, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.matchers.members import (
    UNREADABLE,
    Member,
    Members,
    MemberSettings,
    Row,
    SketchMember,
    TakesLabels,
    TreeMember,
)
from xmcspark.matchers.predictions import Predictions
from xmcspark.serving.bundle import MANIFEST, read_manifest
from xmcspark.serving.explain import Step, WeighedText, path_steps
from xmcspark.serving.explain_buckets import bucket_steps
from xmcspark.serving.explain_heads import head_step
from xmcspark.serving.label_names import LabelNames
from xmcspark.serving.text_reader import TextReader
from xmcspark.sparse.csr import Csr, with_dense


class Answer(NamedTuple):
    """One predicted label."""

    key: str
    score: float
    text: str
    label: int


@dataclass(frozen=True)
class MemberPath:
    """The way to a label in one member of the ensemble; each repetition of a sketch counts as one."""

    member: int
    # Of a tree, the label's score as search gives it wherever its beam goes through this path; of a repetition, that of
    # the label's bucket, from which, with the others', the label's score is made; of UniDEC, the similarity.
    score: float
    steps: list[Step]

    @property
    def margin(self) -> float:
        """The margins of the path added up, before any transform, all nodes alike (predict.path_weight 1)."""
        total = np.float32(0)
        for step in self.steps:
            total += np.float32(step.margin)
        return float(total)


class Predictor:
    """An open bundle. `predict` may be called from several threads."""

    def __init__(self, reader: TextReader, members: Members, names: LabelNames, beam: int, width: int):
        self.reader, self.members, self.names, self.beam = reader, members, names, beam
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
        sizes = {"beam": beam or self.beam, "top_k": k if len(self.members) == 1 else max(k, self.width)}
        if isinstance(texts, (list, tuple)) and len(texts) == 1:  # no overhead, and the same answer
            found = self.members.search_one(self.reader.one(texts[0]), **sizes)
        else:
            found = self.members.search(self.reader.rows(texts), **sizes, threads=threads)
        return found.top(k)

    def tfidf(self, texts: Sequence[str]) -> sp.csr_matrix:
        """The texts as the model sees them: a row each, a column for each feature; see `gram`."""
        return self.reader.vectorizer.transform(texts)

    def gram(self, feature: int) -> str:
        """The words or characters that a feature stands for."""
        return self.reader.vectorizer.gram(feature)[1]

    def explain(self, text: str, label: int | str) -> list[MemberPath]:
        """Why `text` gets a label (id or key), for each member of the ensemble: of a tree, what each feature adds to
        each matcher on the way from the root to the label; of a sketch, to the label's bucket in each repetition; of
        UniDEC, how similar text and label are by each head."""
        number = self.names.label(label) if isinstance(label, str) else int(label)
        row = self.reader.one(text)
        paths: list[MemberPath] = []
        for member in self.members.members:
            paths += self._paths(member, row, number, len(paths))
        return paths

    def _paths(self, member: Member, row: Row, label: int, first: int) -> list[MemberPath]:
        """The member's ways to a label, numbered from `first`."""
        features, values, embedding = row
        if isinstance(member, TreeMember):
            given = None if member.sparse else embedding
            weighed, X = self._weighed(features, values, given)
            steps = path_steps(member.searcher, weighed, label)
            wanted = sp.csr_matrix(([np.float32(1)], ([0], [label])), shape=(1, label + 1))
            return [MemberPath(first, float(member.searcher.score(X, wanted).data[0]), steps)]
        if isinstance(member, SketchMember):
            weighed, X = self._weighed(features, values, None)
            return [
                MemberPath(first + bucket.repetition, bucket.score, [bucket.step])
                for bucket in bucket_steps(member.sketch, weighed, X, label)
            ]
        from xmcspark.neural.unidec.member import NearestMember  # torch is there: it was opened

        assert isinstance(member, NearestMember)
        assert embedding is not None
        step = head_step(member.search, embedding, label)
        return [MemberPath(first, step.margin, [step])]

    def _weighed(
        self, features: np.ndarray, values: np.ndarray, embedding: np.ndarray | None
    ) -> tuple[WeighedText, Csr]:
        grams = [self.gram(feature) for feature in features.tolist()]
        row = np.array([0, len(features)], np.int64)
        X = Csr(row, features, values, (1, self.reader.vectorizer.n_features))
        weighed = WeighedText(features, values, grams, embedding)
        return weighed, X if embedding is None else with_dense(X, embedding[None])

    def with_new_labels(self, texts: Mapping[str, str]) -> Predictor:
        """One that finds further labels as well, given as key: text, by what their texts mean: nothing is trained, and
        the bundle stays as it is. It takes a model of method unidec with a dual head. New labels have ids after those
        of the bundle. Beside a tree, which does not know them, they have one voice of two."""
        if not any(isinstance(member, TakesLabels) for member in self.members.members):
            raise InputError(
                "labels that were not trained are found by a dual encoder, and this model has none: train one with "
                "method: unidec"
            )
        if not isinstance(texts, Mapping):
            raise InputError(
                f'new labels are given as key: text, as in {{"A1": "Oak Board"}}, not as a {type(texts).__name__}'
            )
        names = self.names.with_more(list(texts), list(texts.values()))
        ids = np.arange(len(self.names), len(names), dtype=np.int64)
        embeddings = self.reader.embeddings(list(texts.values()))
        members = tuple(
            member.with_labels(ids, embeddings) if isinstance(member, TakesLabels) else member
            for member in self.members.members
        )
        return Predictor(self.reader, replace(self.members, members=members), names, self.beam, self.width)


def load(folder: str | Path) -> Predictor:
    """Opens a published bundle; files are mapped into memory, not read, so its size does not matter."""
    return open_bundle(Path(folder))


def open_bundle(folder: Path, linked: bool = False) -> Predictor:
    """As `load`; `linked` as in `read_manifest`."""
    settings = read_manifest(folder, linked)["settings"]
    try:
        members = MemberSettings.from_plain(settings)
        beam, width = int(settings["beam"]), int(settings["top_k"])
    except UNREADABLE as error:
        raise InputError(
            f"{folder / MANIFEST}: its settings are not those of this release ({error}): publish the run again"
        ) from error
    return Predictor(
        TextReader.open(folder),
        Members.load(folder / "model", members),
        LabelNames.load(folder / "labels"),
        beam,
        width,
    )
