"""XR-Transformer on a real cluster: two processes on executors fine-tune together, as well as one does."""

import json
import sys
from pathlib import Path

import pytest
from standalone import finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "neural"))

NEURAL = {
    "method": "xr-transformer",
    "augment": {"gandalf": False},
    "tree": {"max_leaf": 20, "branching": 8},
    "train": {},
    "xr_transformer": {"down_to": "clusters", "branching": 8, "max_leaf": 30},
    "publish": {"enabled": False},  # a run that is served would not be trained again
}
ENCODER = {
    "epochs": 0.4,
    "batch_size": 32,
    "max_length": 12,
    "learning_rate": 0.001,
    "head_learning_rate": 0.01,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("torch")
    from tiny_model import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("encoder") / "model")


@pytest.mark.slow
def test_two_processes_on_executors_fine_tune_as_well_as_one(cluster, configure, model, tmp_path):
    found = {}
    for processes in (1, 2):  # runs of their own: in one, the second would find the work of the first done
        batch = ENCODER["batch_size"] // processes
        encoder = {**ENCODER, "model": str(model), "processes": processes, "batch_size": batch}
        config = configure(f"tuned-by-{processes}", **NEURAL, encoder=encoder)
        finish(cluster.submit("refresh", "--config", str(config)))
        run = tmp_path / f"tuned-by-{processes}" / "night"
        notes = json.loads((run / "stages" / "encode.json").read_text())["notes"]
        assert notes["processes"] == processes
        precision = float(json.loads((run / "summary.json").read_text())["metrics"]["P@1"])
        found[processes] = (precision, [level["steps"] for level in notes["levels"]])
    assert found[1][1] == found[2][1]
    assert all(steps > 0 for steps in found[1][1])
    assert found[2][0] == pytest.approx(found[1][0], abs=0.02)
