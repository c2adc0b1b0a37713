"""The members of a trained ensemble, opened for prediction from the folder that training wrote: `<folder>/0`,
`<folder>/1`, ... Decides how their predictions become one, with or without excluded labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import Searcher
from xmcspark.sparse.csr import Csr


@dataclass(frozen=True)
class Members:
    """Searchers of the same labels, and how their rankings are fused."""

    searchers: tuple[Searcher, ...]
    fusion: str

    @staticmethod
    def load(folder: Path, members: int, scoring: Scoring, fusion: str) -> Members:
        """Maps the members into memory; `scoring` in place of what they were saved with."""
        opened = (Searcher.load(folder / str(member), scoring) for member in range(members))
        return Members(tuple(opened), fusion)

    @property
    def n_features(self) -> int:
        return self.searchers[0].n_features

    def predict(self, X: Csr, excluded: Csr, *, beam: int, top_k: int, threads: int = 1) -> Predictions:
        """The `top_k` best labels of each row of X without those that `excluded` [rows, labels] holds for it:
        each member leaves them out, then the members' rankings are fused."""
        found = [
            search_without(searcher, X, excluded, beam=beam, top_k=top_k, threads=threads)
            for searcher in self.searchers
        ]
        return fused(found, self.fusion)


def fused(found: Sequence[Predictions], fusion: str) -> Predictions:
    """One ranking from those of the members, which are all of the same width."""
    return found[0] if len(found) == 1 else fuse(found, fusion, top_k=found[0].k)
