"""Which build the tests run on, how long property tests try, and the one Spark session of all tests.
XMCSPARK_EXPECT_CHECKED=1 says that the kernels must be the checked ones (.ci/run): these are slow, so they get
fewer examples."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

import xmcspark._native.cpu  # noqa: F401  first, so that no test's path puts another build before it

CHECKED = os.environ.get("XMCSPARK_EXPECT_CHECKED", "0") == "1"
IN_CI = bool(os.environ.get("CI"))

# No deadline: machines are shared. In CI the same examples each time: a red build must be about the change.
hypothesis.settings.register_profile(
    "xmcspark",
    deadline=None,
    max_examples=20 if CHECKED else 100,
    derandomize=IN_CI,
    database=None if IN_CI else hypothesis.settings.get_profile("default").database,
)
hypothesis.settings.load_profile("xmcspark")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Tiers: tests that use the Spark session are marked `spark`, those of tests/cluster `cluster`."""
    for item in items:
        if "cluster" in item.path.parts:
            item.add_marker("cluster")
        elif "spark" in item.fixturenames:
            item.add_marker("spark")
    # The longest first: run in parallel, the others fill the gaps. Tests of a file stay together and in order.
    slow = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.get_closest_marker("cluster") is None, item.path not in slow))


_SPARK = {
    "spark.ui.enabled": "false",  # no port to collide on
    "spark.driver.memory": "1g",  # several test runs fit on one machine
    # Tests are short: compiling more code better never pays off, and neither do threads that collect garbage.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",  # nothing listens beyond this machine
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",  # tiny data: tasks cost more than rows; odd, so that nothing divides evenly
    "spark.python.worker.faulthandler.enabled": "true",  # a native crash shows its stack
    "spark.sql.warehouse.dir": "/nonexistent",  # nobody writes managed tables
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session that all Spark tests share: two slots, started when first asked for."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    from xmcspark.store.session import open_session

    builder = SparkSession.builder.master("local[2]")
    for key, value in _SPARK.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    session = open_session("tests")
    yield session
    session.stop()


@pytest.fixture
def make_context(spark: Any, tmp_path: Any) -> Callable[..., Any]:
    """`make_context(stage, "text.normalize=lower", ...)`: a stage's context in a run of its own, `test`, in a root
    that all contexts of one test share. `run=` names another run, `base=` the run it starts from."""
    from xmcspark.config.configuration import load
    from xmcspark.store.filesystem import Filesystem
    from xmcspark.store.runs import Run
    from xmcspark.store.stage import Context

    def make(stage: Any, *overrides: str, run: str = "test", base: str | None = None) -> Context:
        root = str(tmp_path / "runs")
        config = load(None, [f"run.root={root}", f"run.id={run}", *overrides])
        fs = Filesystem(spark)
        return Context(
            spark, config, Run(fs, root, run), stage, Run(fs, root, base) if base else None, key="test"
        )

    return make


@pytest.fixture
def small_splits(spark: Any) -> Iterator[None]:
    """Files are read in pieces of a few kB: a task for each, and tasks without rows."""
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    spark.conf.set(key, "4096")
    yield
    spark.conf.set(key, before)
