"""The settings of augmentation: label texts as training instances (Gandalf, paper 5, chapter 1), and the conventional
augmentations it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xmcspark.config.setting import Rule, check_settings, setting


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool) or value == "auto"


def _is_threshold(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1


@dataclass(frozen=True)
class AugmentSettings:
    """Training instances that are made, not given: label texts with the labels that co-occur as soft targets (Gandalf,
    paper 5), or mixtures of instances. Metrics never count them."""

    gandalf: bool | str = setting(
        False,
        "Whether label texts become training instances; auto tries it on held-out instances, decides and says why.",
        source="paper 5, section 1.3",
        rule=Rule(_is_switch, "true, false or auto"),
    )
    targets: str = setting(
        "gandalf",
        "What a label's text should be answered with: gandalf, the labels that co-occur, each with its conditional "
        "probability (eq. 1.6); self, the label alone; glas, sigmoids of symmetrised probabilities (eq. 1.9).",
        source="paper 5, table 1.2",
        choices=("gandalf", "self", "glas"),
    )
    graph: str = setting(
        "cooccurrence",
        "What counts as occurring together: being labels of one instance, or being visited by random walks.",
        source="paper 5, table 1.7",
        choices=("cooccurrence", "random-walk"),
    )
    restart: float = setting(
        0.8,
        "Random walk: probability that a hop leaves from the start again.",
        source="Mittal et al. 2021",
        minimum=0,
        maximum=1,
    )
    walk_length: int = setting(
        400, "Random walk: hops from each label.", source="Mittal et al. 2021", minimum=1, maximum=100_000
    )
    delta: float = setting(
        0.1,
        "Soft targets are kept if their probability is strictly above this.",
        source="paper 5, table 1.7",
        rule=Rule(_is_threshold, "a number from 0 to below 1"),
    )
    min_count: int = setting(
        3,
        "Instances that must have both labels for one to be a soft target of the other's text; 1 is the paper's.",
        minimum=1,
    )
    max_labels: int = setting(
        100,
        "Labels of an instance that count for co-occurrence, chosen by hash: the work grows with their square.",
        minimum=1,
        maximum=10_000,
    )
    max_neighbours: int = setting(
        100,
        "Other labels kept for each label: those with the largest counts, of equal ones the lower ids.",
        minimum=1,
    )
    weight: float = setting(
        2.0,
        "How much a made instance counts in training; an observed one counts 1, and so it does in the paper.",
        above=0,
        maximum=100,
    )
    negatives: float = setting(
        0.1,
        "How much it counts, times its weight, as a negative example of labels that are not among its targets; 0 for "
        "not at all, 1 is the paper's. Does nothing with method unidec, whose losses weigh rows as a whole.",
        minimum=0,
        maximum=1,
    )
    share: float = setting(
        1.0,
        "Share of the labels whose texts become instances.",
        source="paper 5, figure 1.4",
        above=0,
        maximum=1,
    )
    sample: str = setting(
        "uniform",
        "Which labels these are: uniform, by hash; tail, the rarest first, by bins of equal training volume.",
        source="paper 5, figure 1.4",
        choices=("uniform", "tail"),
    )
    training: str = setting(
        "union",
        "What is trained on: union, instances and label texts; labels, label texts only; sample, as many of the union "
        "as there are instances.",
        source="paper 5, table 1.2",
        choices=("union", "labels", "sample"),
    )
    mixup: str = setting(
        "none",
        "In place of Gandalf: mixup mixes each instance with another, label-mixup with the text of one of its labels.",
        source="paper 5, table 1.6",
        choices=("none", "mixup", "label-mixup"),
    )
    mixup_alpha: float = setting(
        0.2,
        "Mixtures take shares from the distribution Beta(alpha, alpha).",
        source="Zhang et al. 2018",
        above=0,
        maximum=2,
    )
    in_vocabulary: bool = setting(False, "Whether label texts count when the vocabulary and idf are learned.")
    in_pifa: bool = setting(True, "Whether label texts count in label features (PIFA), by their targets.")
    validation_share: float = setting(
        0.1,
        "Share of the training instances held out to see whether it helps, for auto or a warning; 0 does not look.",
        minimum=0,
        maximum=0.5,
    )
    trial_rows: int = setting(
        100_000, "Most instances that the trial uses, chosen by hash: it is one task.", minimum=10
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def weights(self) -> tuple[float, float]:
        """Of a made instance: for its targets, and as a negative example of other labels."""
        return self.weight, self.weight * self.negatives

    def contradictions(self) -> list[str]:
        problems = []
        if self.gandalf == "auto" and not self.validation_share:
            problems.append(
                "gandalf is 'auto' with validation_share 0: there is nothing to decide by; raise "
                "augment.validation_share, or set augment.gandalf to true or false"
            )
        if self.mixup != "none" and self.gandalf is not False:
            problems.append(
                f"mixup is {self.mixup!r} and gandalf is on: these are alternatives; set augment.gandalf to false or "
                "augment.mixup to none"
            )
        if self.targets == "glas" and self.graph == "random-walk":
            problems.append(
                "targets is 'glas' with graph 'random-walk': eq. 1.9 needs counts that are the same both ways, which "
                "visits of walks are not; set augment.graph to cooccurrence or augment.targets to gandalf"
            )
        return problems
