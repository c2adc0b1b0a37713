"""The methods a user can ask for, as changes to the defaults (which are XR-Linear's). The values are those of
`xmcspark.matchers.presets`, so that the library and a configured run train the same model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xmcspark.matchers.presets import PRESETS, Preset


@dataclass(frozen=True)
class Method:
    """A preset: dotted keys and the values they have instead of the defaults."""

    meaning: str
    source: str
    changes: Mapping[str, Any]


def _changes(preset: Preset) -> dict[str, Any]:
    found: dict[str, Any] = {} if preset.tree is not None else {"tree.shape": []}
    for section, settings in (("tree", preset.tree), ("train", preset.train), ("predict", preset.scoring)):
        if settings is not None:
            default = type(settings)()
            for field in dataclasses.fields(settings):
                value = getattr(settings, field.name)
                if value != getattr(default, field.name):
                    found[f"{section}.{field.name}"] = value
    return found if preset.trees == 1 else {**found, "ensemble.members": preset.trees}


_CHANGES: dict[str, dict[str, Any]] = {
    # MACH has no tree; what it trains instead is in the section mach.
    "mach": {"mach.enabled": True, "ensemble.members": 0},
    # Rankers that saw wrong clusters too are heard more than what found the clusters (bench/RANKERS.md).
    "xr-transformer": {
        "encoder.enabled": True,
        "xr_transformer.enabled": True,
        "train.negatives": "tfn+man",
        "predict.path_weight": 0.25,
        "predict.beam": 20,
    },
    "x-transformer": {
        "encoder.enabled": True,
        "x_transformer.enabled": True,
        "train.negatives": "tfn+man",
        "predict.path_weight": 0.0625,
        "predict.beam": 40,
    },
    # No tree either. One that is added is fused by normalised scores, because similarities may be negative.
    "unidec": {
        "encoder.enabled": True,
        "unidec.enabled": True,
        "ensemble.members": 0,
        "ensemble.fusion": "normalised",
        # There are few epochs by default: with the paper's τ of 5 nothing would be clustered or mined again.
        "unidec.refresh_epochs": 1,
    },
}

METHODS: dict[str, Method] = {
    name: Method(meaning, source, _CHANGES.get(name) or _changes(PRESETS[name]))
    for name, meaning, source in (
        ("xr-linear", "TF-IDF, a balanced label tree, linear matchers, beam search.", "paper 1"),
        ("parabel", "Balanced binary trees whose scores are averaged.", "Prabhu et al. 2018, Parabel"),
        (
            "bonsai",
            "Shallow, wide trees, clusters as large as the labels make them; scores averaged.",
            "Khandagale et al. 2020, Bonsai",
        ),
        (
            "dismec",
            "No tree: every label against all instances. Costs instances x labels: for small label sets.",
            "Babbar and Schölkopf 2017, DiSMEC",
        ),
        (
            "mach",
            "Labels hashed into buckets, several times; a classifier of buckets for each, and no tree.",
            "paper 2; Medini et al. 2019, MACH",
        ),
        (
            "xr-transformer",
            "A transformer fine-tuned level by level down a label tree; then matchers as in xr-linear, on TF-IDF and "
            "embeddings.",
            "paper 4",
        ),
        (
            "x-transformer",
            "A transformer fine-tuned to find clusters of labels; linear rankers within them.",
            "paper 3",
        ),
        (
            "unidec",
            "A dual encoder of texts and label texts and a classifier, trained together on pools of labels; the "
            "nearest labels are found by vector search, without a tree.",
            "paper 5, chapter 2",
        ),
    )
}
