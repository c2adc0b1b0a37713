"""What a training task may take, and what it is told when it would take more."""

import pytest

from xmcspark.errors import InputError
from xmcspark.matchers.schedule import Work
from xmcspark.matchers.task_memory import check_memory, derived_limit, work_bytes
from xmcspark.tree.units import Unit

GB = 1 << 30


def work(rows, nodes=1):
    return Work(0, Unit(7, 0, 0, nodes > 1, nodes, 32, rows, 100 * rows, 3 * rows, 32, 10**9))


def test_the_largest_unit_is_named_with_its_rows_the_limit_and_remedies():
    sizes = {work(10**6): 3 * GB, work(10): GB // 2, work(2 * 10**6): 5 * GB}
    with pytest.raises(InputError, match=r"unit 7.*2,000,000 rows.*5,120 MB.*1,024 MB; 2 units.*sub_trees"):
        check_memory(sizes, GB)
    check_memory(sizes, None)
    check_memory(sizes, 5 * GB)


def test_max_rows_bounds_what_a_single_node_takes():
    at_limit, above = (work_bytes(work(rows), 10**6, 3, 10**6, 1) for rows in (10**6, 10**8))
    assert above < 1.1 * at_limit
    assert work_bytes(work(10**8, nodes=5), 10**6, 3, 10**6, 1) > 50 * at_limit


@pytest.mark.parametrize(
    ("conf", "slots", "limit"),
    [
        ({"spark.driver.memory": "4g"}, 2, 6 * GB),
        ({"spark.executor.cores": "4", "spark.executor.memoryOverhead": "8g"}, None, 2 * GB),
        (
            {"spark.executor.cores": "4", "spark.task.cpus": "2", "spark.executor.memoryOverhead": "2048"},
            None,
            GB,
        ),
        (
            {"spark.executor.pyspark.memory": "1024m", "spark.executor.memoryOverhead": "9g"},
            None,
            GB,
        ),
        ({"spark.executor.cores": "4"}, None, None),
    ],
)
def test_the_limit_follows_from_the_session_where_it_says(conf, slots, limit):
    assert derived_limit(conf, slots, 16 * GB) == limit
