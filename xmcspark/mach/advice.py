"""How many buckets and repetitions tell labels apart.

Two labels are indistinguishable if they share their bucket in every repetition: no score can then separate them. A
2-universal hash puts two given labels into one of B buckets together with probability at most 1/B, so R independent
ones do with at most B^-R. There are L (L - 1) / 2 < L² / 2 pairs, and by the union bound

    P(some pair is indistinguishable) < L² / 2 · B^-R.

R = 2 · log(L / √δ) / log B is B^R = L² / δ, at which the right side is δ / 2: enough for any tolerated probability δ,
with a factor of 2 to spare (Medini et al. 2019, theorem 2). Solved for B it is (L / √δ)^(2/R). Each more repetition
divides the bound by B; R grows with log L only."""

from __future__ import annotations

import math
from fractions import Fraction

from xmcspark.errors import InputError


def repetitions_for(labels: int, buckets: int, delta: float) -> int:
    """The least R of the formula, as a whole number."""
    _check(labels, buckets, delta)
    enough = _needed(labels, delta)
    repetitions = max(1, math.ceil(2 * math.log(labels / math.sqrt(delta)) / math.log(buckets)) - 1)
    while buckets**repetitions < enough:  # logarithms are a little off where the answer is a whole number
        repetitions += 1
    return repetitions


def buckets_for(labels: int, repetitions: int, delta: float) -> int:
    """The fewest B that so many repetitions need."""
    if repetitions < 1:
        raise InputError(f"repetitions is {repetitions}: at least 1 is needed")
    _check(labels, 2, delta)
    enough = _needed(labels, delta)
    too_few, many = 1, 2
    while many**repetitions < enough:
        too_few, many = many, 2 * many
    while many - too_few > 1:
        middle = (many + too_few) // 2
        too_few, many = (too_few, middle) if middle**repetitions >= enough else (middle, many)
    return many


def collision_bound(labels: int, buckets: int, repetitions: int) -> float:
    """No more than this is the probability that some two labels are indistinguishable."""
    return float(min(Fraction(1), Fraction(labels * (labels - 1) // 2, buckets**repetitions)))


def advice(labels: int, buckets: int, repetitions: int, delta: float) -> list[str]:
    """What B and R mean for so many labels, and what would do: sentences for the terminal."""
    advised = repetitions_for(labels, buckets, delta)
    bound = collision_bound(labels, buckets, repetitions)
    fewest = buckets_for(labels, repetitions, delta)
    other = f", or from {fewest:,} buckets with {repetitions}" if fewest < labels else ""
    found = [
        f"{labels:,} labels in {buckets:,} buckets, {repetitions} times: some two labels share all their buckets with "
        f"probability {_below(bound)}",
        f"mach.delta {delta:g} is met from {advised} repetitions on with {buckets:,} buckets{other}; classifiers err, "
        "so quality asks for more",
    ]
    if buckets * repetitions >= labels:
        found.append(
            f"{buckets:,} buckets x {repetitions} repetitions are no fewer classifiers than the {labels:,} labels: "
            "quality may gain, size will not; with so few labels method dismec or xr-linear is smaller"
        )
    shortfall = too_few(labels, buckets, repetitions, delta)
    return found if shortfall is None else [*found, shortfall]


def too_few(labels: int, buckets: int, repetitions: int, delta: float) -> str | None:
    """The warning, where R is below what is advised; None if it is enough."""
    advised = repetitions_for(labels, buckets, delta)
    if repetitions >= advised:
        return None
    return (
        f"mach.repetitions is {repetitions}, fewer than the {advised} that mach.delta {delta:g} needs: labels that "
        "share all their buckets cannot be told apart; raise mach.repetitions or mach.buckets"
    )


def _needed(labels: int, delta: float) -> Fraction:
    """B^R must be no less."""
    return Fraction(labels) ** 2 / Fraction(delta)


def _below(bound: float) -> str:
    return "up to 1" if bound >= 1 else f"at most {bound:.1g}"


def _check(labels: int, buckets: int, delta: float) -> None:
    if labels < 1 or buckets < 2 or not 0 < delta < 1:
        raise InputError(
            f"labels ({labels}) must be at least 1, buckets ({buckets}) at least 2 and delta ({delta:g}) "
            "between 0 and 1"
        )
