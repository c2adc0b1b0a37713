"""What settings of different sections cannot have together: between trees and what stands beside them, about MACH,
about encoders, and about trees. Each rule says what contradicts what and how to solve it; all are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from xmcspark.matchers.scoring import may_be_negative, negative_by

if TYPE_CHECKING:
    from xmcspark.config.configuration import Config

_FINE_TUNING = ("xr_transformer", "x_transformer", "unidec")


def contradictions_of(config: Config) -> list[str]:
    rules = (_of_members, _of_mach, _of_encoders, _of_unidec, _of_trees)
    return list(chain.from_iterable(rule(config) for rule in rules))


def _of_members(config: Config) -> Iterator[str]:
    trees, mach, unidec = config.ensemble.members, config.mach.enabled, config.unidec.enabled
    if trees == 0 and not mach and not unidec:
        yield (
            "ensemble.members is 0, mach.enabled and unidec.enabled are false: there is nothing to train; set "
            "ensemble.members to 1"
        )
    if config.predict.mode == "routed" and (mach or unidec):
        beside = "mach.enabled: the sketch" if mach else "unidec.enabled: the index of labels"
        yield (
            f"predict.mode is routed with {beside} is searched as a whole, on every node; set predict.mode to "
            "replicated"
        )
    sketch = (config.mach.transform, config.mach.aggregate) if mach else None
    negative = negative_by(trees, config.predict.transform, sketch, unidec)
    fused = (
        mach + unidec + (trees if config.tree.shape != () else min(trees, 1))
    )  # more of the same are refused below
    if negative and fused > 1 and config.ensemble.fusion == "average":
        yield (
            f"ensemble.fusion is average with {negative}: its scores may be negative, where a label that a member did "
            "not find (0) would rank above one it found; set ensemble.fusion to rank or normalised"
        )
    if config.encoder.enabled and mach:
        yield "encoder.enabled and mach.enabled are both true: a sketch reads TF-IDF only; switch one of them off"


def _of_mach(config: Config) -> Iterator[str]:
    mach, negatives = config.mach, config.train.negatives
    if not mach.enabled:
        return
    if mach.aggregate == "unbiased" and may_be_negative(mach.transform):
        yield (
            f"mach.aggregate is unbiased with mach.transform {mach.transform}: the estimate takes 1 / B off a mean of "
            "probabilities, and these are none; set mach.transform to sigmoid, or mach.aggregate to mean"
        )
    if config.ensemble.members == 0 and negatives != "tfn":
        yield (
            f"train.negatives is {negatives!r} with mach.enabled and ensemble.members 0: without a tree there are no "
            "predicted parents; set train.negatives to tfn"
        )


def _of_encoders(config: Config) -> Iterator[str]:
    ways = [f"{name}.enabled" for name in _FINE_TUNING if getattr(config, name).enabled]
    if len(ways) > 1:
        yield (
            f"{' and '.join(ways)} are {'both' if len(ways) == 2 else 'all'} true: an encoder is fine-tuned in one "
            "way; choose one by method"
        )
    if ways and not config.encoder.enabled:
        yield f"{ways[0]} is true but encoder.enabled is false: there is nothing to fine-tune"
    if config.x_transformer.enabled and config.ensemble.members != 1:
        yield (
            f"ensemble.members is {config.ensemble.members} with x_transformer.enabled: the encoder is fine-tuned on "
            "the clusters of one tree; set ensemble.members to 1"
        )
    x = config.x_transformer
    if x.enabled and x.matching == "neural" and not (config.encoder.epochs or x.bootstrap):
        yield (
            "encoder.epochs is 0 and x_transformer.bootstrap is false: the matcher of clusters would know nothing; set "
            "x_transformer.bootstrap to true, or x_transformer.matching to linear"
        )
    if x.enabled and x.matching == "neural" and config.train.loss == "logistic":
        yield (
            "train.loss is logistic with x_transformer.matching neural: the matcher of clusters learns a squared "
            "hinge, whose margins are no logits; set train.loss to squared_hinge, or x_transformer.matching to linear"
        )
    if (x.enabled or config.xr_transformer.enabled) and config.train.negatives == "tfn":
        weight = config.predict.path_weight
        if weight < 1:
            yield (
                f"train.negatives is tfn with predict.path_weight {weight:g}, which method {config.method} has for "
                "tfn+man: rankers that see no other clusters need the path to a label; set predict.path_weight to 1 "
                "and predict.beam to 10, or train.negatives to tfn+man"
            )
    if config.encoder.enabled and config.augment.mixup != "none":
        yield (
            f"augment.mixup is {config.augment.mixup} with encoder.enabled: a mixture of two texts has no embedding; "
            "set augment.mixup to none"
        )


def _of_unidec(config: Config) -> Iterator[str]:
    settings, processes = config.unidec, config.encoder.processes
    if not settings.enabled:
        return
    if settings.batch_size < 2 * processes:
        yield (
            f"unidec.batch_size is {settings.batch_size} with encoder.processes {processes}: each process needs at "
            f"least two queries of a batch; set unidec.batch_size to {2 * processes} or more"
        )


def _of_trees(config: Config) -> Iterator[str]:
    if config.tree.shape != ():
        return
    if config.ensemble.members > 1:
        yield (
            f"ensemble.members is {config.ensemble.members} but tree.shape is []: without a tree all members are the "
            "same; set ensemble.members to 1"
        )
    if config.train.negatives != "tfn":
        yield (
            f"train.negatives is {config.train.negatives!r} but tree.shape is []: without a tree there are no "
            "predicted parents; set train.negatives to tfn"
        )
