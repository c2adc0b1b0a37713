"""Ensembles of the models of bench.transformers, as papers 3 and 4 report them: which models are fused, from the
predictions they left, and how good that is. Nothing is trained for it; `./spark-submit.sh fuse` does it with runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.augmentation import Task
from bench.transformers_steps import TOP_K, Asked, measured
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.predictions import Predictions

# By name: (names of rows, whether all seeds are members, not one ensemble for each).
ENSEMBLES: dict[str, tuple[tuple[str, ...], bool]] = {
    "X-Transformer, three indexers": (
        ("X-Transformer", "X-Transformer pifa-neural", "X-Transformer text-emb"),
        False,
    ),
    "X-Transformer over seeds": (("X-Transformer",), True),
    "XR-Transformer over seeds": (("XR-Transformer",), True),
    "XR-Transformer and XR-Linear": (("XR-Transformer", "XR-Linear"), False),
    "XR-Transformer and X-Transformer": (("XR-Transformer", "X-Transformer"), False),
    "XR-Transformer and frozen": (("XR-Transformer", "frozen"), False),
    "frozen and XR-Linear": (("frozen", "XR-Linear"), False),
    **{
        f"{vectors} and {tree}": ((vectors, tree), False)
        for vectors in ("UniDEC", "UniDEC wide", "UniDEC pick all")
        for tree in ("XR-Linear", "XR-Linear TFN+MAN", "XR-Linear TFN+MAN Gandalf")
    },
}


def members_of(wanted: Sequence[Asked]) -> list[tuple[str, int | None, list[Asked]]]:
    """(name, seed or None for all, members) of each ensemble that the rows wanted can make up."""
    seeds = sorted({asked.seed for asked in wanted})
    found = []
    for name, (rows, over_seeds) in ENSEMBLES.items():
        for group in [seeds] if over_seeds else [[seed] for seed in seeds]:
            by_name = {(asked.name, asked.seed): asked for asked in wanted}
            members = [by_name.get((row, seed)) for row in rows for seed in group]
            whole = [member for member in members if member is not None]
            if len(whole) == len(members) > 1:
                found.append((name, None if over_seeds else group[0], whole))
    return found


def fusion_of(members: Sequence[Asked]) -> str:
    """As runs are fused by default: similarities are no probabilities."""
    return "normalised" if any(member.method == "unidec" for member in members) else "average"


def fused(
    wanted: Sequence[Asked],
    is_done: Callable[[Asked], bool],
    predictions: Callable[[Asked], Predictions],
    task_of_rows: Callable[[int], Task],
) -> list[dict[str, Any]]:
    """Each ensemble whose members are done, with its metrics."""
    results = []
    for name, seed, members in members_of(wanted):
        if not all(map(is_done, members)):
            continue
        found = fuse([predictions(member) for member in members], fusion_of(members), top_k=TOP_K)
        results.append(
            {
                "name": name,
                "seed": seed,
                "members": [member.label for member in members],
                "metrics": measured(found, task_of_rows(members[0].rows)),
            }
        )
    return results
