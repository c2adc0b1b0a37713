"""The whole job on a real cluster: the same answer as on one slot, whatever is killed on the way."""

import json
import os
import signal
import time

import pytest
from contents import contents
from standalone import executor_pids, finish, kill, submit


@pytest.fixture(scope="module")
def reference(spark, corpus, tmp_path_factory):
    """What one slot on one machine makes of the corpus."""
    root = tmp_path_factory.mktemp("reference")
    path = root / "config.json"
    config = {
        "run": {"root": str(root / "local"), "id": "night"},
        "input": {part: str(corpus / f"{part}.parquet") for part in ("train", "test", "labels")},
        "augment": {"gandalf": True, "trial_rows": 1000},
        "tree": {"max_leaf": 20, "branching": 8, "sub_trees": 12},
        "train": {"waves": 1},
    }
    path.write_text(json.dumps(config))
    finish(submit("refresh", "local[1]", ("--config", str(path)), {}))
    return _found(spark, root / "local")


def _found(spark, root):
    """Digests of tables and files, and what augment noted: rows made, what was cut, the trial to the last digit."""
    notes = json.loads((root / "night" / "stages" / "augment.json").read_text())["notes"]
    assert notes["rows"] > 0
    assert notes["trial"]["plain"]["P@1"] > 0
    return {**contents(spark, root), "augmentation": notes}


def _is_whole(path):
    """Whether a record is there to its end: a job killed while it writes one has not finished that stage."""
    try:
        return bool(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return False


def _wait_for(path, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not _is_whole(path):
        if process.poll() is not None:
            raise AssertionError(
                f"the job ended before {path.name} was there: {process.communicate()[0][-4000:]}"
            )
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.05)


def test_an_executor_lost_in_training_changes_nothing(spark, cluster, configure, reference, tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
    }
    process = cluster.submit("refresh", "--config", str(configure("lost")), **log)
    _wait_for(tmp_path / "lost" / "night" / "stages" / "train.wave-0.json", process)
    victims = executor_pids(cluster)
    assert victims
    os.kill(victims[0], signal.SIGKILL)
    finish(process)
    said = "".join(path.read_text() for path in events.rglob("*") if path.is_file() and "events" in path.name)
    assert "SparkListenerExecutorRemoved" in said
    assert _found(spark, tmp_path / "lost") == reference


@pytest.mark.slow
def test_a_driver_killed_between_and_inside_stages_goes_on_where_it_was(
    spark, cluster, configure, reference, tmp_path
):
    config, stages = str(configure("killed")), tmp_path / "killed" / "night" / "stages"
    first = cluster.submit("refresh", "--config", config)
    _wait_for(stages / "vectorize.json", first)
    kill(first)
    second = cluster.submit("refresh", "--config", config)
    _wait_for(stages / "train.wave-0.json", second)
    kill(second)
    reused = sum(_is_whole(path) for path in stages.glob("train.wave-*.json"))
    assert not (stages / "train.json").exists()
    assert not (tmp_path / "killed" / "published").exists()
    output = finish(cluster.submit("refresh", "--config", config))
    assert "vectorize: finished before, skipped" in output
    notes = json.loads((stages / "train.json").read_text())["notes"]
    assert notes["waves_reused"] >= reused >= 1
    assert notes["waves_reused"] + notes["waves_trained"] == 4
    assert _found(spark, tmp_path / "killed") == reference


def test_a_cluster_gives_the_tables_and_bundle_of_one_slot_and_speculative_duplicates_commit_once(
    spark, cluster, configure, reference, tmp_path
):
    eager = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.interval": "50ms",
        "spark.speculation.minTaskRuntime": "1ms",
    }
    finish(cluster.submit("refresh", "--config", str(configure("twice")), **eager))
    assert _found(spark, tmp_path / "twice") == reference
