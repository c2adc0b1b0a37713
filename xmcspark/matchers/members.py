"""The members of a trained ensemble, opened for prediction from the folder that training wrote: trees in `<folder>/0`,
`<folder>/1`, ..., a sketch in `<folder>/mach`, UniDEC's vectors of labels in `<folder>/unidec`. Decides how their
predictions become one, with or without excluded labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from xmcspark.errors import ConfigError, InputError
from xmcspark.mach.model import Sketch
from xmcspark.mach.settings import MachSettings
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import Searcher
from xmcspark.sparse.csr import Csr

SKETCH, NEAREST = "mach", "unidec"  # folders beside those of trees

Row = tuple[
    np.ndarray, np.ndarray, np.ndarray | None
]  # a query: features, values, embedding if there is an encoder


@dataclass(frozen=True)
class MemberSettings:
    """Which members there are, and how they are asked."""

    trees: int
    fusion: str
    scoring: Scoring
    mach: MachSettings | None = None  # None: no sketch
    unidec: str | None = None  # the fine-tuning whose vectors of labels are searched; None: there are none

    def to_plain(self) -> dict[str, Any]:
        """For JSON; `from_plain` gives it back."""
        mach = None if self.mach is None else vars(self.mach)
        return {
            "members": self.trees,
            "fusion": self.fusion,
            "transform": self.scoring.transform,
            "combine": self.scoring.combine,
            "path_weight": self.scoring.path_weight,
            "mach": mach,
            "unidec": self.unidec,
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> MemberSettings:
        """ValueError, TypeError, KeyError or ConfigError if it is something else."""
        mach, unidec = (
            plain.get(name) for name in ("mach", "unidec")
        )  # absent in bundles of an earlier release
        return MemberSettings(
            int(plain["members"]),
            str(plain["fusion"]),
            Scoring(plain["transform"], plain["combine"], plain.get("path_weight", 1.0)),
            None if mach is None else MachSettings(**mach),
            None if unidec is None else str(unidec),
        )


class Member(Protocol):
    """A model that ranks labels by itself."""

    def predict(
        self, X: Csr, excluded: Csr | None, *, beam: int, top_k: int, threads: int = 1
    ) -> Predictions:
        """The `top_k` best labels of each row of X, without those that `excluded` [rows, labels] holds for it."""
        ...

    def predict_one(self, row: Row, *, beam: int, top_k: int) -> Predictions:
        """As `predict` for one query, without overhead."""
        ...


@runtime_checkable
class TakesLabels(Protocol):
    """A member that can find labels it was not trained on."""

    def with_labels(self, ids: np.ndarray, embeddings: np.ndarray) -> Member:
        """One that finds these labels as well, by the embeddings of their texts."""
        ...


@dataclass(frozen=True)
class TreeMember:
    """A tree. Where `sparse` it was trained on TF-IDF alone, whatever else the rows have."""

    searcher: Searcher
    sparse: bool = False

    def predict(
        self, X: Csr, excluded: Csr | None, *, beam: int, top_k: int, threads: int = 1
    ) -> Predictions:
        rows = X.sparse if self.sparse else X
        if excluded is None:
            return self.searcher.predict(rows, beam=beam, top_k=top_k, threads=threads)
        return search_without(self.searcher, rows, excluded, beam=beam, top_k=top_k, threads=threads)

    def predict_one(self, row: Row, *, beam: int, top_k: int) -> Predictions:
        features, values, embedding = row
        given = None if self.sparse else embedding
        return self.searcher.predict_one(features, values, given, beam=beam, top_k=top_k)


@dataclass(frozen=True)
class SketchMember:
    """A sketch, which has no beam."""

    sketch: Sketch

    def predict(
        self, X: Csr, excluded: Csr | None, *, beam: int, top_k: int, threads: int = 1
    ) -> Predictions:
        return self.sketch.predict(X, excluded=excluded, top_k=top_k, threads=threads)

    def predict_one(self, row: Row, *, beam: int, top_k: int) -> Predictions:
        return self.sketch.predict_one(*row[:2], top_k=top_k)


@dataclass(frozen=True)
class Members:
    """Models of the same labels, and how their rankings are fused."""

    members: tuple[Member, ...]
    fusion: str

    @staticmethod
    def load(folder: Path, settings: MemberSettings) -> Members:
        """Maps the members into memory; their scoring in place of what they were saved with."""
        beside = settings.unidec is not None
        opened: list[Member] = [
            TreeMember(Searcher.load(folder / str(number), settings.scoring), sparse=beside)
            for number in range(settings.trees)
        ]
        if settings.mach is not None:
            opened.append(SketchMember(Sketch.load(folder / SKETCH, settings.mach)))
        if beside:  # torch is loaded only here
            from xmcspark.neural.unidec.member import NearestMember

            opened.append(NearestMember.load(folder / NEAREST, identity=settings.unidec))
        return Members(tuple(opened), settings.fusion)

    def __len__(self) -> int:
        return len(self.members)

    def predict(
        self, X: Csr, excluded: Csr | None, *, beam: int, top_k: int, threads: int = 1
    ) -> Predictions:
        """The `top_k` best labels of each row of X without those that `excluded` [rows, labels] holds for it:
        each member leaves them out, then the members' rankings are fused."""
        found = [
            member.predict(X, excluded, beam=beam, top_k=top_k, threads=threads) for member in self.members
        ]
        return fused(found, self.fusion)

    def search(self, X: Csr, *, beam: int, top_k: int, threads: int = 1) -> Predictions:
        """As `predict`, of all labels."""
        return self.predict(X, None, beam=beam, top_k=top_k, threads=threads)

    def search_one(self, row: Row, *, beam: int, top_k: int) -> Predictions:
        """As `search` for one query, without overhead."""
        found = [member.predict_one(row, beam=beam, top_k=top_k) for member in self.members]
        return fused(found, self.fusion)


def fused(found: Sequence[Predictions], fusion: str) -> Predictions:
    """One ranking from those of the members, as wide as the widest of them."""
    return found[0] if len(found) == 1 else fuse(found, fusion, top_k=max(member.k for member in found))


UNREADABLE = (KeyError, TypeError, ValueError, ConfigError, InputError)  # what `from_plain` may raise
