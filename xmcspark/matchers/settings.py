"""The settings of matcher training, with the papers' defaults."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.errors import ConfigError

LOSSES = ("squared_hinge", "hinge", "logistic")
NEGATIVES = ("tfn", "man", "tfn+man")


@dataclass(frozen=True)
class TrainSettings:
    """One L2-regularised linear one-vs-all problem per child of each tree node (paper 1, eq. 5 and 6)."""

    loss: str = "squared_hinge"  # squared_hinge, hinge or logistic
    cost_positive: float = 1.0  # Cp, the weight of a positive example's loss; above 0
    cost_negative: float = 1.0  # Cn, the weight of a negative example's loss; above 0
    bias: float = 1.0  # value of the constant feature; 0 = no bias
    tolerance: float = 0.1  # stop when the projected gradients span no more than this; above 0
    max_sweeps: int = 100  # most passes over a node's rows; at least 1
    threshold: float = 0.1  # weights smaller than this in absolute value are dropped; 0 keeps all
    max_weights: int = 0  # most weights kept per child, the largest; 0 = no limit
    negatives: str = "tfn"  # tfn (rows of true parents), man (rows of predicted parents) or tfn+man
    man_beam: int = 20  # parents per row that count as predicted, for man; at least 1
    cost_sensitive: bool = False  # weigh positives by relevance, normalised per row (paper 4, eq. 6 and 9)
    alpha: float = 1.0  # weight of negatives when cost_sensitive (paper 4, table 7); above 0
    seed: int = 0

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}: choose one of {', '.join(choices)}"
            for name, choices in (("loss", LOSSES), ("negatives", NEGATIVES))
            if getattr(self, name) not in choices
        ]
        for name in ("cost_positive", "cost_negative", "tolerance", "alpha", "max_sweeps", "man_beam"):
            if not getattr(self, name) > 0:
                problems.append(f"{name} is {getattr(self, name)!r}: it must be above 0")
        for name in ("bias", "threshold", "max_weights"):
            if not getattr(self, name) >= 0:
                problems.append(f"{name} is {getattr(self, name)!r}: it must not be negative")
        if problems:
            raise ConfigError(problems)
