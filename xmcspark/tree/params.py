"""How label trees are built: one place for the settings, their ranges and the two rules of paper 1, section
6, that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from xmcspark.config.setting import check_settings, setting

Centres = Literal["auto", "dense", "spa"]


@dataclass(frozen=True)
class TreeParams:
    """A label tree from the labels' features, level by level, by k-means (paper 1, section 6)."""

    branching: int = setting(
        16, "Children of each node; when not balanced, clusters per node at most.", source="PECOS", minimum=2
    )
    max_leaf: int = setting(
        96, "Labels per leaf cluster at most; when not balanced, unless max_depth is reached.", minimum=1
    )
    shape: tuple[int, ...] | None = setting(
        None,
        "Clusters of each level, from the top, instead of branching and max_leaf; [] is no tree at all; null lets "
        "these two decide.",
    )
    iterations: int = setting(5, "Passes per split at most.", minimum=1)
    tolerance: float = setting(
        0.01, "Stop a split when at most this share of its labels changed sides.", minimum=0, maximum=1
    )
    seed: int = setting(0, "Where k-means starts.", minimum=0, maximum=2**63 - 1)
    balanced: bool = setting(
        True, "Clusters of equal size; false is k-means without that constraint, as Bonsai has it."
    )
    max_depth: int = setting(4, "When not balanced: levels of clusters at most.", minimum=1)
    centres: Centres = setting(
        "spa",
        "How cluster centres are held: dense, sparse (spa) or, with auto, as paper 1, eq. 3 says. The tree is the "
        "same.",
        choices=get_args(Centres),
    )
    spa_gamma: float = setting(
        0.05,
        "For auto: dense centres where more than this share of a centre is non-zero.",
        source="paper 1, eq. 3",
        above=0,
    )
    spa_alpha: float = setting(
        0.10,
        "For auto: share of features that labels of a cluster do not have in common.",
        source="paper 1, eq. 3",
        above=0,
    )
    sampling: bool = setting(
        False,
        "Cluster a sample of the labels, (t + b) / (T + b) of them at level t of T, then assign all.",
        source="paper 1, section 6",
    )
    sampling_b: float = setting(0.0, "The b of sampling.", source="paper 1, section 6", minimum=0)
    sample_labels: int = setting(
        2_000_000,
        "Where there are more labels, the upper levels of a balanced tree are clustered from so many, chosen by hash; "
        "all labels then go down to sub-trees, of equal size within 10%, which are clustered each by itself.",
        source="paper 1, section 6",
        minimum=1,
    )
    threads: int = setting(1, "The tree is the same for any number.", minimum=1)

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if self.shape is None or self.balanced:
            return []
        return [
            f"shape is {list(self.shape)} but balanced is false: a shape is that of a balanced tree; leave one out"
        ]

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


@dataclass(frozen=True)
class TreeSettings(TreeParams):
    """A label tree of a run: how it is built, and how the work on it is cut."""

    sub_trees: int = setting(
        64,
        "Training is cut into units of at most 1 / sub_trees of all its work, where a node can be divided. The model "
        "is the same for any number.",
        minimum=1,
    )
    centre_features: int = setting(
        100, "Features of a node's centre kept in the table tree_nodes, the largest.", minimum=1
    )
