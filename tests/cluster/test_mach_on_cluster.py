"""MACH on a real cluster: each repetition is a task of its own, and what is killed costs no other repetition."""

import json
import os
import signal
import time

import pytest
from contents import contents
from standalone import executor_pids, finish, kill, submit

MACH = {
    "method": "mach",
    "mach": {"buckets": 200, "repetitions": 6},
    "augment": {"gandalf": False},
    "train": {},
    "tree": {},
}


def finished(stages):
    """Repetitions with a whole record, and when it was written."""
    found = {}
    for path in stages.glob("train.repetition-*.json"):
        try:
            found[path.name] = json.loads(path.read_text())["finished_at"]
        except ValueError:  # being written
            continue
    return found


def wait_for(stages, count, process):
    deadline = time.monotonic() + 300
    while len(finished(stages)) < count:
        assert process.poll() is None, process.communicate()[0][-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def reference(spark, configure, tmp_path):
    config = configure("local", **MACH)
    finish(submit("refresh", "local[1]", ("--config", str(config)), {}))
    return contents(spark, tmp_path / "local")


@pytest.mark.slow
def test_a_lost_executor_and_a_killed_driver_retrain_only_what_was_not_finished(
    spark, cluster, configure, reference, tmp_path
):
    config, stages = str(configure("killed", **MACH)), tmp_path / "killed" / "night" / "stages"
    first = cluster.submit("refresh", "--config", config)
    wait_for(stages, 1, first)
    os.kill(executor_pids(cluster)[0], signal.SIGKILL)
    wait_for(stages, 3, first)
    kill(first)
    kept = finished(stages)
    assert not (stages / "train.json").exists()
    assert 3 <= len(kept) < 6
    finish(cluster.submit("refresh", "--config", config))
    after = finished(stages)
    assert {name: after[name] for name in kept} == kept
    notes = json.loads((stages / "train.json").read_text())["notes"]
    assert notes["repetitions_reused"] >= len(kept)
    assert notes["repetitions_reused"] + notes["repetitions_trained"] == 6
    assert contents(spark, tmp_path / "killed") == reference
