"""How margins along a path become one score: the transforms and combinations users may ask for.

Ranking by a product of scores is done on the sum of their logarithms, which needs no transcendental function for
the hinge forms; the score reported is the product again."""

from __future__ import annotations

from dataclasses import dataclass

from xmcspark.errors import ConfigError

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

    transform: str = "l3-hinge"
    combine: str = "product"

    def __post_init__(self) -> None:
        problems = []
        if self.transform not in TRANSFORMS:
            problems.append(f"transform is {self.transform!r}: choose one of {', '.join(TRANSFORMS)}")
        if self.combine not in ("product", "sum"):
            problems.append(f"combine is {self.combine!r}: choose product or sum")
        elif self.combine == "product" and (self.transform == "identity" or self.transform.startswith("log-")):
            problems.append(
                f"combine=product with transform={self.transform} multiplies numbers of either sign, which does "
                "not rank: use combine=sum"
            )
        if problems:
            raise ConfigError(problems)

    @property
    def kernel_form(self) -> tuple[str, int, bool, bool]:
        """(transform, power, keep the logarithm, exponentiate at the end) as the kernel takes it."""
        name = self.transform.removeprefix("log-")
        kind, power = ("hinge", int(name[1])) if name.endswith("hinge") else (name, 1)
        product = self.combine == "product"
        return kind, power, product or self.transform.startswith("log-"), product
