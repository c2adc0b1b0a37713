"""The settings of MACH (paper 2; Medini et al. 2019): how labels are hashed, what learns the buckets, how labels are
recovered. Decides what cannot be trained: that is refused when settings are read, or once the labels are counted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib.util import find_spec

from xmcspark.config.setting import Rule, check_settings, setting
from xmcspark.errors import ConfigError
from xmcspark.matchers.scoring import TRANSFORMS, Scoring, may_be_negative

LEARNERS = ("linear", "mlp")
AGGREGATES = ("mean", "min", "median", "unbiased")
RECOVERIES = ("fast", "exact")
LOSSES = ("auto", "softmax", "bce")
NEEDS_TORCH = (
    "mach.learner is 'mlp', which needs torch where it is trained: pip install 'xmcspark[neural]' in the environment "
    "of the executors, or set mach.learner to linear"
)


def _is_probability(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1


@dataclass(frozen=True)
class MachSettings:
    """R times, labels are hashed into B buckets and a small classifier learns the buckets; scores of labels are
    recovered from what the R classifiers say. Linear ones are trained as section `train` says."""

    enabled: bool = setting(False, "Whether MACH is trained, in the place of a tree; set by method: mach.")
    buckets: int = setting(
        1000,
        "B: buckets that labels are hashed into, fewer than labels.",
        source="paper 2: 10,000 or 20,000 for 50 million labels",
        minimum=2,
        maximum=2**31 - 2,
    )
    repetitions: int = setting(
        16,
        "R: hash functions, each with a classifier of its own.",
        source="paper 2: 32",
        minimum=1,
        maximum=10_000,
    )
    learner: str = setting(
        "linear",
        "What learns the buckets: linear, a matcher for each; mlp, one hidden layer (needs torch for training).",
        source="Medini et al. 2019",
        choices=LEARNERS,
    )
    hashed_features: int = setting(
        0,
        "Columns that inputs are hashed into, with signs, by each repetition anew; 0 takes inputs as they are.",
        source="Weinberger et al. 2009",
        minimum=0,
        maximum=2**31 - 2,
    )
    transform: str = setting(
        "sigmoid",
        "What a bucket's margin becomes, before margins are aggregated, as predict.transform has it for trees.",
        choices=TRANSFORMS,
    )
    aggregate: str = setting(
        "mean",
        "What a label's score is made of: mean, min or median of its buckets' probabilities; unbiased, "
        "B / (B - 1) * (mean - 1 / B).",
        source="Medini et al. 2019, section 3",
        choices=AGGREGATES,
    )
    recovery: str = setting(
        "fast",
        "Which labels are scored: exact, all; fast, those of each repetition's best buckets.",
        choices=RECOVERIES,
    )
    top_buckets: int = setting(50, "Best buckets of each repetition, for fast recovery.", minimum=1)
    min_count: int = setting(
        1, "Repetitions in which a label's bucket must be among those, for fast recovery.", minimum=1
    )
    labels_at_once: int = setting(
        0,
        "Labels whose hashes are held at a time while recovering; bounds memory, the answers are the same. 0: all, but "
        "in the job predict no more than fit.",
        minimum=0,
    )
    delta: float = setting(
        0.05,
        "Tolerated probability that some two labels share their buckets in all repetitions, for the advice.",
        source="Medini et al. 2019, theorem 2",
        rule=Rule(_is_probability, "a number between 0 and 1"),
    )
    hidden: int = setting(256, "mlp: units of the hidden layer.", minimum=1, maximum=2**20)
    epochs: int = setting(10, "mlp: passes over the instances.", minimum=1)
    batch_size: int = setting(256, "mlp: instances of a step.", minimum=1)
    learning_rate: float = setting(0.002, "mlp: step size of Adam.", above=0)
    loss: str = setting(
        "auto",
        "mlp: softmax, one bucket is right; bce, each bucket by itself; auto, softmax if no instance has more than "
        "one label.",
        choices=LOSSES,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def scoring(self) -> Scoring:
        """What makes scores of margins. There is no path along which they would be combined."""
        return Scoring(self.transform, "sum" if may_be_negative(self.transform) else "product")

    def contradictions(self) -> list[str]:
        problems = []
        if self.min_count > self.repetitions:
            problems.append(
                f"min_count is {self.min_count} with {self.repetitions} repetitions: no label can be found that "
                "often; lower min_count"
            )
        if self.hashed_features == 1:
            problems.append("hashed_features is 1: one column tells nothing apart; use 0 for no hashing")
        return problems

    def check_labels(self, labels: int, top_k: int = 1) -> None:
        """That so many labels can be hashed, and so many be asked for: before anything is trained."""
        problems = []
        if self.buckets >= labels:
            problems.append(
                f"mach.buckets is {self.buckets} with {labels} labels: there must be fewer buckets than labels; lower "
                "mach.buckets, or take method dismec, which has a classifier for each label"
            )
        if top_k > labels:
            problems.append(
                f"predict.top_k is {top_k} with {labels} labels: no more than all of them can be predicted; lower it"
            )
        if problems:
            raise ConfigError(problems)


def learner_problem(settings: MachSettings) -> str | None:
    """Why the learner cannot be trained in this environment; None if it can. Nothing is loaded."""
    return NEEDS_TORCH if settings.learner == "mlp" and find_spec("torch") is None else None


RECOVERY_KEYS = (
    "transform",
    "aggregate",
    "recovery",
    "top_buckets",
    "min_count",
    "labels_at_once",
)  # the trained sketch is the same
TRAINING_KEYS = tuple(
    field.name for field in fields(MachSettings) if field.name not in (*RECOVERY_KEYS, "delta")
)
REPETITION_KEYS = tuple(
    name for name in TRAINING_KEYS if name not in ("enabled", "repetitions")
)  # what decides each by itself
