"""How label trees are built: one place for the settings, their ranges and the two rules of paper 1, section
6, that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xmcspark.errors import ConfigError

Centres = Literal["auto", "dense", "spa"]


@dataclass(frozen=True)
class TreeParams:
    branching: int = 16  # children per node, >= 2; unbalanced: clusters per node at most
    max_leaf: int = 96  # labels per leaf cluster at most (unbalanced: unless max_depth is reached)
    shape: tuple[int, ...] | None = None  # balanced: clusters per level instead of branching and max_leaf
    iterations: int = 5  # passes per split at most, >= 1
    tolerance: float = 0.01  # stop when at most this share of labels changed sides
    seed: int = 0  # >= 0
    balanced: bool = True  # False: k-means without a size constraint, as Bonsai has it
    max_depth: int = 4  # unbalanced: levels of clusters at most
    centres: Centres = "spa"  # the tree is the same for all three; "auto": paper 1, eq. 3
    spa_gamma: float = 0.05  # eq. 3: dense centres where more than this share of a centre is non-zero
    spa_alpha: float = 0.10  # eq. 3: share of features that labels of a cluster do not have in common
    sampling: bool = (
        False  # cluster a sample of the labels, (t + b) / (T + b) at level t of T, then assign all
    )
    sampling_b: float = 0.0  # the b above, >= 0
    threads: int = 1  # the tree is the same for any number

    def __post_init__(self) -> None:
        rules = {
            "branching must be at least 2": self.branching >= 2,
            "max_leaf must be at least 1": self.max_leaf >= 1,
            "iterations must be at least 1": self.iterations >= 1,
            "tolerance must be between 0 and 1": 0 <= self.tolerance <= 1,
            "seed must be between 0 and 2^63 - 1": 0 <= self.seed < 2**63,
            "max_depth must be at least 1": self.max_depth >= 1,
            'centres must be "auto", "dense" or "spa"': self.centres in ("auto", "dense", "spa"),
            "spa_gamma must be positive": self.spa_gamma > 0,
            "spa_alpha must be positive": self.spa_alpha > 0,
            "sampling_b must not be negative": self.sampling_b >= 0,
            "threads must be at least 1": self.threads >= 1,
            "shape and balanced=False exclude each other": self.shape is None or self.balanced,
        }
        problems = [f"tree: {rule}" for rule, holds in rules.items() if not holds]
        if problems:
            raise ConfigError(problems)

    def sample_share(self, level: int, levels: int) -> float:
        """beta(t): the share of labels that level `level` of `levels` levels of clusters is computed from."""
        if not self.sampling or level == 0:
            return 1.0
        return (level + self.sampling_b) / (levels + self.sampling_b)

    def dense_centres(self, clusters: int, nnz: int, features: int) -> bool:
        """Whether a level of `clusters` clusters has dense centres (eq. 3)."""
        if self.centres != "auto":
            return self.centres == "dense"
        return self.spa_alpha * nnz > self.spa_gamma * clusters * features
