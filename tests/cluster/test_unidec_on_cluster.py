"""UniDEC on a real cluster: two processes on executors fine-tune together, go on after a kill, label texts are encoded
by tasks, and what is published can be served."""

import json
import sys
import time
from pathlib import Path

import pytest
from standalone import finish, kill

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "neural"))

UNIDEC = {
    "method": "unidec",
    "augment": {"gandalf": False},
    "tree": {},
    "train": {},
    "unidec": {
        "dual_width": 32,
        "classifier_width": 32,
        "batch_size": 256,
        "positives": 1,
        "hard_negatives": 1,
        "refresh_epochs": 1,
        "bce": 0.0,  # over all labels it would drown the rest in so few steps
        "head_learning_rate": 0.003,
        "table_learning_rate": 0.03,
    },
    "publish": {"enabled": True},
}


def _wait_for_a_checkpoint(root, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not any(root.rglob("checkpoints/unidec/step-*")):
        assert process.poll() is None, f"the job ended before: {process.communicate()[0][-4000:]}"
        assert time.monotonic() < deadline, "no checkpoint came"
        time.sleep(0.05)


def test_two_processes_on_executors_go_on_after_a_kill_and_train_what_is_served(cluster, configure, tmp_path):
    pytest.importorskip("torch")
    from tiny_model import save_tiny_model

    import xmcspark

    model = save_tiny_model(tmp_path / "encoder")
    encoder = {"model": str(model), "processes": 2, "epochs": 3.0, "max_length": 12, "learning_rate": 0.001}
    config = configure("pair", **UNIDEC, encoder={**encoder, "checkpoint_every": 2})
    killed = cluster.submit("refresh", "--config", str(config))
    _wait_for_a_checkpoint(tmp_path / "pair", killed)
    kill(killed)
    assert not (tmp_path / "pair" / "published").exists()
    finish(cluster.submit("refresh", "--config", str(config)))
    run = tmp_path / "pair" / "night"
    notes = {
        name: json.loads((run / "stages" / f"{name}.json").read_text())["notes"]
        for name in ("encode", "train")
    }
    (task,) = notes["encode"]["tasks"]
    assert task["steps"] == 3 * 24  # all of the 6,000 instances, 256 at a time, by both together
    assert 2 <= task["resumed_at"] < 3 * 24
    assert notes["encode"]["processes"] == 2
    assert notes["train"]["unidec"]["search"] == "exact"
    metrics = json.loads((run / "summary.json").read_text())["metrics"]
    assert metrics["P@1"] > 0.02  # of 900 labels
    (answers,) = xmcspark.load(run / "bundle").predict(["red pan"], k=3)
    assert len({answer.key for answer in answers}) == 3
