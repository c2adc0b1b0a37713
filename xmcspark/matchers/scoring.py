"""How margins along a path become one score: the transforms and combinations users may ask for.

Ranking by a product of scores is done on the sum of their logarithms, which needs no transcendental function for
the hinge forms; the score reported is the product again."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.config.setting import check_settings, setting

TRANSFORMS = (
    "sigmoid",
    "log-sigmoid",
    *(f"l{power}-hinge" for power in range(1, 5)),
    *(f"log-l{power}-hinge" for power in range(1, 5)),
    "identity",
)


def may_be_negative(transform: str) -> bool:
    """Whether what a margin becomes is no probability."""
    return transform == "identity" or transform.startswith("log-")


def negative_by(
    trees: int, transform: str, sketch: tuple[str, str] | None, vectors: bool = False
) -> str | None:
    """The setting by which scores of some member may be negative, of so many trees with a transform, of a sketch with
    (transform, aggregate) and of a search of vectors; None if there is none. Such scores cannot be averaged with those
    of others: a label that a member did not find counts as 0."""
    if trees and may_be_negative(transform):
        return f"predict.transform {transform}"
    if sketch is not None and may_be_negative(sketch[0]):
        return f"mach.transform {sketch[0]}"
    if sketch is not None and sketch[1] == "unbiased":
        return "mach.aggregate unbiased"
    return "unidec.enabled" if vectors else None


@dataclass(frozen=True)
class Scoring:
    """`transform` of each margin z: sigmoid 1 / (1 + exp(-z)); lp-hinge exp(-max(0, 1 - z)^p); log-... their
    logarithms; identity. `combine` joins them along a path: product or sum; what is above the label counts
    `path_weight`."""

    transform: str = setting(
        "l3-hinge",
        "What a margin z becomes: sigmoid 1 / (1 + exp(-z)), lp-hinge exp(-max(0, 1 - z)^p), log-... their "
        "logarithms, or identity.",
        source="PECOS",
        choices=TRANSFORMS,
    )
    combine: str = setting(
        "product", "How scores join along a path.", source="PECOS", choices=("product", "sum")
    )
    path_weight: float = setting(
        1.0,
        "What the nodes above a label count beside its own matcher: the power of their product, or the factor of their "
        "sum; 1 is all alike. About a quarter was better where rankers saw wrong clusters too (train.negatives "
        "tfn+man).",
        source="PECOS has 1; paper 3, eq. 2 leaves it open",
        above=0,
        maximum=1,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if self.combine == "product" and may_be_negative(self.transform):
            return [
                f"combine=product with transform={self.transform} multiplies numbers of either sign, which does "
                "not rank: use combine=sum"
            ]
        return []

    @classmethod
    def for_loss(cls, loss: str) -> Scoring:
        """What suits matchers trained with a loss: probabilities for the logistic one, else the default."""
        return cls("sigmoid") if loss == "logistic" else cls()

    @property
    def kernel_form(self) -> tuple[str, int, bool, bool]:
        """(transform, power, keep the logarithm, exponentiate at the end) as the kernel takes it."""
        name = self.transform.removeprefix("log-")
        kind, power = ("hinge", int(name[1])) if name.endswith("hinge") else (name, 1)
        product = self.combine == "product"
        return kind, power, product or self.transform.startswith("log-"), product
