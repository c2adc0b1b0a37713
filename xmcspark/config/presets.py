"""The methods a user can ask for, each as changes to the defaults of the same code (the defaults are
XR-Linear's). Adding a method here adds it to `method` and to `config --skeleton`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """A preset: dotted keys and the values they have instead of the defaults."""

    meaning: str
    source: str
    changes: Mapping[str, Any] = field(default_factory=dict)


METHODS: dict[str, Method] = {
    "xr-linear": Method("TF-IDF, a balanced label tree, linear matchers, beam search.", "paper 1"),
    "parabel": Method(
        "Three balanced binary trees whose scores are averaged.",
        "Prabhu et al. 2018, Parabel",
        {"tree.branching": 2, "ensemble.members": 3, "predict.transform": "l2-hinge"},
    ),
    "bonsai": Method(
        "Three shallow, wide trees, clusters as large as the labels make them.",
        "Khandagale et al. 2020, Bonsai",
        {
            "tree.branching": 100,
            "tree.balanced": False,
            "tree.max_depth": 2,
            "ensemble.members": 3,
            "predict.transform": "l2-hinge",
        },
    ),
    "dismec": Method(
        "No tree: every label against all instances. Costs instances x labels: for small label sets.",
        "Babbar and Schölkopf 2017, DiSMEC",
        {
            "tree.shape": [],
            "train.threshold": 0.01,
            "predict.transform": "identity",
            "predict.combine": "sum",
        },
    ),
}
