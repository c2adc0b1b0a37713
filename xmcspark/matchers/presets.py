"""Well-known methods as settings of the same code: which tree, which matchers, how many trees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xmcspark.errors import ConfigError
from xmcspark.labels.features import pifa
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import search
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.train import train_matchers
from xmcspark.matchers.trainer import Report
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.params import TreeParams


@dataclass(frozen=True)
class Preset:
    """A method: `trees` members that differ in their seed, their rankings fused."""

    tree: TreeParams | None  # None: no tree, every label a child of the root
    train: TrainSettings = TrainSettings()
    scoring: Scoring = Scoring()
    trees: int = 1
    fusion: str = "average"  # or "rank", "normalised": see `fuse`


PRESETS = {
    # Paper 1; PECOS, Yu et al. 2020.
    "xr-linear": Preset(TreeParams()),
    # Prabhu et al., WWW 2018: binary balanced trees, three of them.
    "parabel": Preset(TreeParams(branching=2, max_leaf=100), scoring=Scoring("l2-hinge"), trees=3),
    # Khandagale et al., Machine Learning 2020: shallow, wide and unbalanced.
    "bonsai": Preset(
        TreeParams(branching=100, max_leaf=100, balanced=False, max_depth=2),
        scoring=Scoring("l2-hinge"),
        trees=3,
    ),
    # Babbar and Schölkopf, WSDM 2017: one-vs-all over all instances, small weights dropped.
    "dismec": Preset(None, TrainSettings(threshold=0.01), Scoring("identity", "sum")),
}


@dataclass(frozen=True)
class Ensemble:
    """Models of the same labels, their rankings fused."""

    members: tuple[TreeModel, ...]
    fusion: str = "average"

    def predict(self, X: Any, *, beam: int = 10, top_k: int = 10, threads: int = 1) -> Predictions:
        return self.search(X, beam=beam, top_k=top_k, threads=threads)

    def search(self, X: Any, *, top_k: int = 10, **how: Any) -> Predictions:
        """As `xmcspark.search` for one model, with the same options."""
        found = [search(member, X, top_k=top_k, **how) for member in self.members]
        top_k = min(top_k, self.members[0].tree.n_labels)
        return found[0] if len(found) == 1 else fuse(found, self.fusion, top_k=top_k)

    def save(self, folder: str | Path) -> None:
        for number, member in enumerate(self.members):
            member.save(Path(folder) / f"member-{number}")
        save_arrays(Path(folder), "ensemble", 1, {"members": len(self.members), "fusion": self.fusion}, {})

    @staticmethod
    def load(folder: str | Path) -> Ensemble:
        header, _ = load_arrays(Path(folder), "ensemble", 1)
        names = [f"member-{number}" for number in range(int(header.get("members", 0)))]
        return Ensemble(
            tuple(TreeModel.load(Path(folder) / name) for name in names), str(header.get("fusion"))
        )


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ConfigError([f"method is {name!r}: choose one of {', '.join(PRESETS)}"])
    return PRESETS[name]


def train_preset(
    method: str | Preset,
    X: Any,
    Y: Any,
    *,
    Z: Any = None,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Ensemble:
    """Trains a method of `PRESETS`, or one's own, on instances X and labels Y.

    `Z`: label features for the tree (default: PIFA). Member i uses seed + i for its tree and its matchers.
    """
    chosen = preset(method) if isinstance(method, str) else method
    if Z is None and chosen.tree is not None:
        Z = pifa(X, Y, threads=threads)
    members = []
    for member in range(chosen.trees):
        if chosen.tree is None:
            tree = LabelTree.root_only(Y.shape[1])
        else:
            tree = build_tree(Z, chosen.tree, seed=seed + member, threads=threads)
        settings = replace(chosen.train, seed=seed + member)
        model = train_matchers(X, Y, tree, settings, threads=threads, report=report)
        members.append(replace(model, scoring=chosen.scoring))
    return Ensemble(tuple(members), chosen.fusion)
