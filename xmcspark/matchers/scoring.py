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


@dataclass(frozen=True)
class Scoring:
    """`transform` of each margin z: sigmoid 1 / (1 + exp(-z)); lp-hinge exp(-max(0, 1 - z)^p); log-... their
    logarithms; identity. `combine` joins them along a path: product or sum."""

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

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if self.combine == "product" and (self.transform == "identity" or self.transform.startswith("log-")):
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
