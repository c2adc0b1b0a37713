"""A package runs on a cluster whose machines have nothing of xmcspark: neither its environment nor its clone."""

import json
import subprocess
import sys
import tarfile

import pytest
from standalone import ROOT, SPARK_HOME, bare_environment, small_options

from jobs import package

# The job as it was packed, after a look at where the executors' Python and its modules come from.
LOOK_THEN_REFRESH = """
import json, os, runpy, sys
from pyspark.sql import SparkSession

def places(_):
    import numpy, pyspark, xmcspark._native.solve
    yield os.getcwd(), sys.executable, xmcspark._native.solve.__file__, numpy.__file__, pyspark.__file__, sys.path

context = SparkSession.builder.getOrCreate().sparkContext
seen = context.parallelize(range(8), 8).mapPartitions(places).collect()
with open("seen.json", "w") as file:
    json.dump(seen, file)
runpy.run_path("jobs/refresh.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A folder with what `package` wrote, and the environment unpacked for the driver; nothing else."""
    folder = tmp_path_factory.mktemp("packed")
    config = folder / "config.json"
    settings = {
        "run": {"root": str(folder / "runs"), "id": "night"},
        "input": {"logs": str(folder / "logs"), "sample": True},
        "sample": {"days": 2, "lines_per_day": 400, "items": 60, "queries": 150},
        "ingest": {"columns": {"label_key": "item", "label_text": "title"}},
        "corpus": {"window_days": 2, "test_days": 1},
        "train": {"waves": 1},
    }
    config.write_text(json.dumps(settings))
    assert package.main(["--out", str(folder / "package"), "--config", str(config)]) == 0
    with tarfile.open(folder / "package" / "environment.tar.gz") as archive:
        archive.extractall(folder / "package" / "environment", filter="data")
    return folder / "package"


def test_refresh_runs_from_the_archive_on_machines_that_have_no_xmcspark(cluster, packed):
    (packed / "look_then_refresh.py").write_text(LOOK_THEN_REFRESH)
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", cluster.master]
    command += ["--properties-file", "conf/spark-standalone.conf"]
    command += small_options({"spark.executor.memoryOverhead": "2g"})
    command += ["look_then_refresh.py", "--config", "config.json", "--outcome", str(packed / "outcome.json")]
    command += ["--date", "2025-01-02"]
    environment = {**bare_environment(packed), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=packed, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert json.loads((packed / "outcome.json").read_text())["exit_code"] == 0
    run = packed.parent / "runs" / "night"
    assert json.loads((run / "bundle" / "manifest.json").read_text())["files"]
    assert [json.loads(file.read_text())["run"] for file in (run.parent / "published").glob("*.json")] == [
        "night"
    ]

    seen = json.loads((packed / "seen.json").read_text())
    works = {str(cluster.folder / f"work-{number}") for number in (1, 2)}
    assert {work.partition("/app-")[0] for work, *_ in seen} == works
    for work, executable, kernel, numpy, pyspark, path in seen:
        assert executable == f"{work}/environment/bin/python"
        assert kernel.startswith(f"{work}/environment/lib/")
        assert numpy.startswith(f"{work}/environment/lib/")
        assert pyspark.startswith(str(SPARK_HOME))  # the cluster's own
        elsewhere = [part for part in path if not part.startswith((work, str(SPARK_HOME)))]
        assert not [part for part in elsewhere if str(ROOT) in part or sys.prefix in part]
