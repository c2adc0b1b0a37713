"""How many tasks work is cut for, by what a cluster is told."""

import pytest

from xmcspark.store.session import slots_from

DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "4"}
TEN = {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "10"}


@pytest.mark.parametrize(
    ("settings", "master", "parallelism", "slots"),
    [
        ({}, "local[2]", 2, 2),
        ({"spark.task.cpus": "4"}, "yarn", 40, 10),
        ({"spark.task.cpus": "8"}, "local[2]", 2, 1),
        (TEN, "yarn", 2, 40),
        (TEN, "local[2]", 2, 2),  # there are no executors
        ({**TEN, "spark.task.cpus": "3"}, "yarn", 2, 10),  # one task each, and a core that is not used
        ({**TEN, "spark.dynamicAllocation.enabled": "false"}, "yarn", 12, 12),
        ({**TEN, "spark.executor.cores": ""}, "k8s://host", 2, 10),
        ({**TEN, "spark.executor.cores": ""}, "spark://host", 2, 32),  # as many as its worker has: unknown
        (DYNAMIC, "yarn", 2, 32),
        (DYNAMIC, "yarn", 400, 400),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "2147483647"}, "yarn", 2, 32),
        ({**DYNAMIC, "spark.default.parallelism": "6"}, "yarn", 6, 6),
    ],
)
def test_slots_are_those_that_a_cluster_may_have(settings, master, parallelism, slots):
    assert slots_from(settings, master, parallelism) == slots
