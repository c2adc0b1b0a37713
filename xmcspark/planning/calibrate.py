"""Fits costs to measured runs. Each stage by itself: non-negative costs with the least relative error, held by a weak
pull to the costs before, because a few runs of similar corpora cannot tell kinds of work apart that grow together."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.optimize import nnls

from xmcspark.config.configuration import Config, from_mapping
from xmcspark.errors import StoreError
from xmcspark.planning.costs import Costs, Guesses, Terms
from xmcspark.planning.label_spread import exponent_for, togetherness
from xmcspark.planning.run_folder import RunFolder
from xmcspark.planning.sources import of_run
from xmcspark.planning.statistics import Statistics, completed, expected_grams, vocabulary_factor
from xmcspark.planning.training import planned_training
from xmcspark.planning.work import weight_share, work_seconds, work_shuffle
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.units import load_units

_PULL = 0.03  # of a cost to the one before, beside runs whose relative errors count 1
_LEAST_SHARE = 0.2  # of what it was before: noise must not make work free that will count in a larger run
_LEAST_SECONDS, _LEAST_BYTES = 1.0, 1e6  # below, an error counts as if there were so much

Case = tuple[Terms, float]  # how much work there was, and what it took in all


@dataclass(frozen=True)
class Observation:
    """What one run says."""

    name: str
    config: Config
    statistics: Statistics
    slots: int
    seconds: Mapping[str, float]  # by stage
    shuffle: Mapping[str, float]
    training_cpu: float | None  # seconds of all cores
    guesses: Mapping[str, float]  # what would have been right


def observed(run: RunFolder, slots: int | None, before: Guesses) -> Observation:
    """`slots`: in place of what the run recorded. StoreError if it is nowhere."""
    config, at_once = from_mapping(run.settings), slots or run.slots
    if at_once is None:
        raise StoreError(
            f"run {run.name} does not say how many tasks ran at a time (it is of an older release, or its stages ran "
            "on clusters of different size): give --slots N"
        )
    found, _ = completed(of_run(run), config, before)
    whole = {stage: record for stage, record in run.stages.items() if _did_all(stage, run.notes(stage))}
    seconds = {stage: float(record["seconds"]) for stage, record in whole.items()}
    if run.start_seconds is not None:
        seconds["start"] = run.start_seconds
    measured = {stage: record.get("measured") or {} for stage, record in whole.items()}
    shuffle = {s: float(m["shuffle_bytes"]) for s, m in measured.items() if "shuffle_bytes" in m}
    notes = run.notes("train")
    cpu = None
    if "train" in whole and "solver_cpu_seconds" in notes:
        cpu = float(notes["solver_cpu_seconds"]) + float(notes["unpack_cpu_seconds"])
    guesses = _right_guesses(run, config, found, before)
    return Observation(run.name, config, found, at_once, seconds, shuffle, cpu, guesses)


def calibrated(runs: Sequence[Observation], before: Costs) -> Costs:
    """Costs that explain the runs; of stages that none of them measured, those before."""
    guesses = _mean_guesses(runs, before.guesses)
    seconds: dict[str, list[Case]] = {}
    shuffle: dict[str, list[Case]] = {}
    for run in runs:
        training = planned_training(run.config, run.statistics, guesses.together)
        schedule = training.schedule(run.slots)
        work = work_seconds(run.config, run.statistics, training, schedule, guesses)
        sent = work_shuffle(run.config, run.statistics, schedule, guesses)
        for stage, took in run.seconds.items():
            seconds.setdefault(stage, []).append((work.get(stage, {}), took))
        for stage, size in run.shuffle.items():
            shuffle.setdefault(stage, []).append((sent.get(stage, {}), size))
        if run.training_cpu:
            seconds["train"].append(({"load": training.load / 1e9}, run.training_cpu))
    return Costs(
        _measured(runs),
        guesses,
        {**before.seconds, **_fitted_stages(seconds, before.seconds, _LEAST_SECONDS)},
        {**before.shuffle, **_fitted_stages(shuffle, before.shuffle, _LEAST_BYTES)},
    )


def fitted(cases: Iterable[Case], before: Terms, least: float) -> dict[str, float]:
    """The cost of each kind of work in the cases. `least`: what an error is at least relative to."""
    cases = [(work, took) for work, took in cases if any(work.values())]
    names = sorted({name for work, _ in cases for name in work})
    if not cases:
        return dict(before)
    amounts = np.array([[work.get(name, 0.0) for name in names] for work, _ in cases])
    took = np.array([value for _, value in cases])
    # In units of what the cost was before, or would be if all were due to this work: all are then about 1.
    mean = np.maximum(amounts.mean(axis=0), 1e-12)
    unit = np.array([before.get(name) or took.mean() / m for name, m in zip(names, mean, strict=True)])
    known = np.array([1.0 if before.get(name) else 0.0 for name in names])
    weight = 1.0 / np.maximum(took, least)
    matrix = np.vstack([amounts * unit * weight[:, None], np.diag(_PULL * known)])
    floor = _LEAST_SHARE * known * np.array([name != "fixed" for name in names])
    above, _ = nnls(matrix, np.concatenate([took * weight, _PULL * known]) - matrix @ floor)
    return {name: float(value) for name, value in zip(names, (floor + above) * unit, strict=True)}


def _fitted_stages(
    cases: Mapping[str, list[Case]], before: Mapping[str, Terms], least: float
) -> dict[str, dict[str, float]]:
    found = {stage: fitted(of_stage, before.get(stage, {}), least) for stage, of_stage in cases.items()}
    return {stage: terms for stage, terms in found.items() if terms}


def _did_all(stage: str, notes: Mapping[str, Any]) -> bool:
    """Whether the stage's seconds are those of all its work, not of what an attempt before it had left."""
    if stage == "ingest":
        return int(notes.get("read", 0)) == len(notes.get("days") or {})
    return not (stage == "train" and notes.get("waves_reused"))


def _right_guesses(run: RunFolder, config: Config, found: Statistics, before: Guesses) -> dict[str, float]:
    right = {"zipf": exponent_for(found.top_share, found.labels), "characters": found.characters}
    if "vectorize" in run.stages:
        right["features_per_gram"] = found.row_features / expected_grams(found.characters, config.text)
        right["vocabulary"] = vocabulary_factor(found.features, found.entries)
    per_label = found.pairs / found.labels
    if "index" in run.stages and per_label > 1.5 and not run.notes("index").get("pifa_features_cut"):
        each = found.label_entries / found.labels / found.row_features
        right["label_growth"] = float(np.clip(np.log(max(each, 1.0)) / np.log(per_label), 0.0, 1.0))
    folder = None if run.local is None else run.local / "tree" / "0"
    if folder is not None and folder.exists() and "index" in run.stages:
        tree, (_, counts) = LabelTree.load(folder), load_units(folder / "units")
        if (share := togetherness(tree, counts)) is not None:
            right["together"] = share
        weights = run.notes("train").get("weights")
        if weights:
            entries = int(counts.capped(config.train.max_rows).nnz.sum()) * config.ensemble.members
            growth = right.get("label_growth", before.label_growth)
            right["weights"] = float(weights) / entries / weight_share(found, growth)
            if size := run.notes("predict").get("model_bytes"):
                right["weight_bytes"] = float(size) / float(weights)
    return right


def _mean_guesses(runs: Sequence[Observation], before: Guesses) -> Guesses:
    changes = {}
    for name in asdict(before):
        values = [run.guesses[name] for run in runs if name in run.guesses]
        if values:
            changes[name] = float(np.mean(values))
    return replace(before, **changes)


def _measured(runs: Sequence[Observation]) -> dict[str, Any]:
    return {
        "machine": f"{platform.machine()}, {runs[0].slots} tasks at a time",
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [f"{run.statistics.instances:,} x {run.statistics.labels:,}" for run in runs],
        "largest_instances": max(run.statistics.instances for run in runs),
    }
