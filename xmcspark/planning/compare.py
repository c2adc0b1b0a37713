"""A finished run beside what would have been planned for it, from no more than its corpus: what was predicted, what it
took, and the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xmcspark.planning.calibrate import observed
from xmcspark.planning.costs import Costs
from xmcspark.planning.machines import Cluster
from xmcspark.planning.plan import Plan, make_plan
from xmcspark.planning.run_folder import RunFolder
from xmcspark.planning.sources import of_run
from xmcspark.planning.statistics import completed


@dataclass(frozen=True)
class Compared:
    """One number of a run."""

    what: str  # seconds, shuffle, memory or count
    name: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float | None:
        return self.predicted / self.measured if self.measured else None


def compared(run: RunFolder, slots: int | None, costs: Costs) -> tuple[Plan, list[Compared]]:
    """The plan as it could have been made before the run's vectorize, and its numbers beside the run's."""
    seen = observed(run, slots, costs.guesses)
    statistics, facts = completed(of_run(run, ("corpus",)), seen.config, costs.guesses)
    cluster = Cluster(f"{seen.slots} slots", seen.slots)
    plan = make_plan(seen.config, statistics, facts, [cluster], costs)
    there = plan.clusters[0]
    found = [Compared("seconds", stage, there.seconds[stage], took) for stage, took in seen.seconds.items()]
    if seen.seconds:
        both = [there.seconds[stage] for stage in seen.seconds]
        found.append(Compared("seconds", "all", sum(both), sum(seen.seconds.values())))
    found += [Compared("shuffle", stage, there.shuffle[stage], size) for stage, size in seen.shuffle.items()]
    return plan, found + _counts(run, plan)


def _counts(run: RunFolder, plan: Plan) -> list[Compared]:
    """What the seconds follow from."""
    corpus, vectorize, index, train = (run.notes(s) for s in ("corpus", "vectorize", "index", "train"))
    rows = corpus["train_instances"] + corpus.get("test_instances", 0)
    trees: list[dict[str, Any]] = index.get("trees") or [{}]
    measured = [
        ("memory", "train", plan.clusters[0].memory["train"], train.get("largest_peak_bytes")),
        ("count", "features", plan.statistics.features, vectorize.get("features")),
        ("count", "entries of a row", plan.statistics.row_features, vectorize.get("nnz", 0) / max(1, rows)),
        ("count", "label entries", plan.statistics.label_entries, index.get("label_feature_entries")),
        ("count", "units", len(plan.training.work.units), trees[0].get("units")),
        ("count", "weights", plan.weights, train.get("weights")),
    ]
    return [Compared(what, name, float(p), float(m)) for what, name, p, m in measured if m]
