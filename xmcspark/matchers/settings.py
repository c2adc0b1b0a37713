"""The settings of matcher training and of search, with the papers' defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xmcspark.config.setting import check_settings, setting
from xmcspark.matchers.scoring import Scoring

LOSSES = ("squared_hinge", "hinge", "logistic")
NEGATIVES = ("tfn", "man", "tfn+man")
INPUTS = ("tfidf+neural", "tfidf", "neural")  # what of rows with embeddings matchers are trained on


@dataclass(frozen=True)
class TrainSettings:
    """One L2-regularised linear one-vs-all problem per child of each tree node (paper 1, eq. 5 and 6)."""

    loss: str = setting(
        "squared_hinge", "What a wrong margin costs.", source="paper 1, eq. 5; PECOS", choices=LOSSES
    )
    cost_positive: float = setting(
        1.0, "Cp, the weight of a positive example's loss.", source="PECOS", above=0
    )
    cost_negative: float = setting(
        1.0, "Cn, the weight of a negative example's loss.", source="PECOS", above=0
    )
    bias: float = setting(1.0, "Value of the constant feature; 0 = no bias.", source="PECOS", minimum=0)
    tolerance: float = setting(
        0.1, "Stop when the projected gradients span no more than this.", source="LIBLINEAR", above=0
    )
    max_sweeps: int = setting(100, "Most passes over a node's rows.", source="PECOS", minimum=1)
    threshold: float = setting(
        0.1,
        "Weights smaller than this in absolute value are dropped; 0 keeps all. Those of an embedding are always kept.",
        source="PECOS",
        minimum=0,
    )
    max_weights: int = setting(
        0,
        "Most weights kept per child, the largest, besides those of an embedding; 0 = no limit.",
        minimum=0,
    )
    negatives: str = setting(
        "tfn",
        "Rows a node trains on: tfn, those of true parents; man, those of predicted parents; tfn+man, both.",
        source="paper 3, section 3.4",
        choices=NEGATIVES,
    )
    man_beam: int = setting(20, "Parents per row that count as predicted, for man.", minimum=1)
    cost_sensitive: bool = setting(
        False, "Weigh positives by relevance, normalised per row.", source="paper 4, eq. 6 and 9"
    )
    alpha: float = setting(
        1.0,
        "Weight of negatives when cost_sensitive.",
        source="paper 4, table 7: 0.125 to 2 by dataset",
        above=0,
    )
    max_rows: int = setting(
        20_000_000,
        "Rows that one node trains on at most: a share of each child's first, so that rare children keep theirs, the "
        "rest by hash.",
        minimum=100,
    )
    seed: int = setting(0, "Order in which examples are visited.", minimum=0, maximum=2**63 - 1)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class TrainJobSettings(TrainSettings):
    """Training as a Spark job: what the matchers are, and how the work is laid out, which does not change them."""

    waves: int | None = setting(
        None,
        "Parts that training is finished in, one by one: a killed run loses only those at work, but each reads all "
        "rows again. null: one for each ten CPU minutes of expected work, at most 4.",
        minimum=1,
    )
    task_memory_mb: int | None = setting(
        None,
        "Memory that one training task may take; null derives it from the session where it can be known.",
        minimum=1,
    )

    @property
    def alone(self) -> TrainSettings:
        """What decides the matchers, as the library takes it."""
        return TrainSettings(**{field.name: getattr(self, field.name) for field in fields(TrainSettings)})


LAYOUT_KEYS = ("waves", "task_memory_mb")  # of TrainJobSettings: the model does not depend on them


@dataclass(frozen=True)
class PredictSettings(Scoring):
    """Beam search down the tree, and how a label's score comes about."""

    top_k: int = setting(10, "Labels returned for each instance.", minimum=1)
    beam: int = setting(10, "Nodes kept on each level of the tree.", source="PECOS", minimum=1)
    exclude_self: bool = setting(
        False, "Never predict the label whose key is the instance's own id, nor count it as a true label."
    )
    mode: str = setting(
        "auto",
        "Where the model is while predicting: replicated, all of it on each node; routed, each part of the labels in "
        "one task; auto, replicated if it fits. The answers are the same.",
        choices=("auto", "replicated", "routed"),
    )
    memory_share: float = setting(
        0.4, "Part of a node's memory that a replicated model may take, for auto.", above=0, maximum=1
    )
    node_memory_mb: int = setting(0, "Memory of a node, for auto; 0 asks the nodes.", minimum=0)

    @property
    def scoring(self) -> Scoring:
        """That part of it."""
        return Scoring(self.transform, self.combine, self.path_weight)
