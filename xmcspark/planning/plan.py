"""The plan: what each stage of a run will take on each of several clusters, put together from statistics, the planned
training and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xmcspark.config.configuration import Config
from xmcspark.planning.costs import Costs, total
from xmcspark.planning.machines import Cluster
from xmcspark.planning.statistics import Facts, Statistics
from xmcspark.planning.training import Schedule, Training, planned_training
from xmcspark.planning.work import STAGES, expected_weights, tree_building, work_seconds, work_shuffle

THREADS = 1  # of a task: spark.task.cpus
_UNEVEN = 1.3  # the busiest slot over the mean from which finer units are worth it
_FAR = 10.0  # times the largest run that was measured


@dataclass(frozen=True)
class ClusterPlan:
    """A run on one cluster."""

    cluster: Cluster
    schedule: Schedule
    seconds: Mapping[str, float]  # by stage
    shuffle: Mapping[str, float]  # bytes, by stage
    memory: Mapping[str, int]  # of the largest task, by stage

    @property
    def hours(self) -> float:
        return sum(self.seconds.values()) / 3600

    @property
    def dollars(self) -> float | None:
        rate = self.cluster.dollars_per_hour
        return None if rate is None else rate * self.hours


@dataclass(frozen=True)
class Plan:
    statistics: Statistics
    facts: Facts
    training: Training
    weights: float  # of the model
    model_bytes: float
    clusters: list[ClusterPlan]
    advice: list[str]


def make_plan(
    config: Config, statistics: Statistics, facts: Facts, clusters: Sequence[Cluster], costs: Costs
) -> Plan:
    training = planned_training(config, statistics, costs.guesses.together)
    plans = [_on_cluster(config, statistics, training, cluster, costs) for cluster in clusters]
    weights = expected_weights(config, statistics, training, costs.guesses)
    size = weights * costs.guesses.weight_bytes
    advice = _advice(config, statistics, training, plans, costs)
    return Plan(statistics, facts, training, weights, size, plans, advice)


def _on_cluster(
    config: Config, statistics: Statistics, training: Training, cluster: Cluster, costs: Costs
) -> ClusterPlan:
    schedule = training.schedule(cluster.slots)
    work = work_seconds(config, statistics, training, schedule, costs.guesses)
    sent = work_shuffle(config, statistics, schedule, costs.guesses)
    return ClusterPlan(
        cluster,
        schedule,
        {stage: total(costs.seconds.get(stage, {}), work[stage]) / cluster.speed for stage in STAGES},
        {stage: total(costs.shuffle.get(stage, {}), sent.get(stage, {})) for stage in STAGES},
        {
            "index": tree_building(config, statistics, cluster.slots).task_bytes,
            "train": training.largest_bytes(THREADS),
        },
    )


def _advice(
    config: Config, statistics: Statistics, training: Training, plans: list[ClusterPlan], costs: Costs
) -> list[str]:
    found = []
    remedies = {
        "train": "raise tree.sub_trees (for sub-trees), lower train.max_rows (for the top nodes)",
        "index": "set pifa.max_features",
    }
    for stage, remedy in remedies.items():
        short = [plan for plan in plans if (plan.cluster.task_bytes or 2**62) < plan.memory[stage]]
        if short:
            need, have = short[0].memory[stage] / 2**30, (short[0].cluster.task_bytes or 0) / 2**30
            names = ", ".join(plan.cluster.name for plan in short)
            found.append(
                f"a task of {stage} needs about {need:.1f} GB and has {have:.1f} GB on {names}: {remedy}, or take "
                "machines with more memory to a vCPU"
            )
    found += _about_balance(training, plans)
    if not config.tree.balanced:
        found.append(
            "tree.balanced is false: the tree's shape is not known before; planned as if it were balanced"
        )
    largest = float(costs.measured.get("largest_instances") or 0)
    if largest and statistics.instances > _FAR * largest:
        found.append(
            f"costs were measured on up to {largest:,.0f} instances, a {statistics.instances / largest:,.0f}th of "
            "these: run a tenth first, then plan --calibrate with that run"
        )
    return found


def _about_balance(training: Training, plans: list[ClusterPlan]) -> list[str]:
    """What to do where slots wait for one another: a sub-tree can be cut finer, a node alone cannot."""
    uneven = [plan for plan in plans if plan.schedule.balance > _UNEVEN]
    if not uneven:
        return []
    names = ", ".join(plan.cluster.name for plan in uneven)
    heaviest = max((work for step in training.steps for work in step), key=lambda work: work.load)
    if heaviest.unit.nodes == 1 and heaviest.load > training.load / uneven[-1].cluster.slots:
        return [
            f"training is uneven on {names}: node {heaviest.unit.node} with {heaviest.unit.rows:,} rows is "
            f"{heaviest.load / training.load:.0%} of the work and is not divided; more slots will not help, a lower "
            "train.max_rows would"
        ]
    return [
        f"training is uneven on {names}: with {len(training.work.units)} units some slots wait for others; try "
        f"tree.sub_trees={4 * uneven[-1].cluster.slots}"
    ]
