"""Checkpoints are whole or not there, and of what is trained now or refused."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from xmcspark.errors import InputError  # noqa: E402
from xmcspark.neural import checkpoint as module  # noqa: E402
from xmcspark.neural.checkpoint import Checkpoints, State  # noqa: E402
from xmcspark.neural.row_table import RowTable  # noqa: E402

IDENTITY = {"rate": 0.1, "data": "d1", "shape": (2, 3)}


def make_state(value: float = 0.0, folder: Path | None = None) -> State:
    table = RowTable.create(4, 2, folder, weights=np.full((4, 2), value, np.float32))
    return State({"encoder": {"w": torch.full((2, 3), value), "n": torch.tensor(value)}}, [table])


def values(state: State) -> set[float]:
    found = {float(x) for tensors in state.tensors.values() for t in tensors.values() for x in t.reshape(-1)}
    return found | set(state.tables[0].weights.reshape(-1).tolist())


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "c", IDENTITY)


@pytest.mark.parametrize("mapped", [False, True])
def test_the_newest_checkpoint_brings_everything_back(checkpoints, tmp_path, mapped):
    place = tmp_path / "table" if mapped else None
    for step in (9, 10):
        checkpoints.write("task", step, make_state(step), {"loss": 1 / 3})
    found = Checkpoints(checkpoints.folder, IDENTITY).newest("task")
    assert (found.step, found.finished, found.facts) == (10, False, {"loss": 1 / 3})
    state = make_state(folder=place)
    found.read_into(state)
    assert values(state) == {10.0}
    assert checkpoints.at("task", 9).step == 9
    assert checkpoints.newest("other") is None


def test_nothing_is_pickled(checkpoints):
    checkpoints.write("task", 1, make_state(), {})
    kinds = {path.suffix for path in checkpoints.folder.rglob("*") if path.is_file()}
    assert kinds == {".json", ".npy", ".safetensors"}


@pytest.mark.parametrize("damaged", ["encoder.safetensors", "table-0/moments.npy", "checkpoint.json"])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_checkpoint_that_is_not_whole_is_passed_over(checkpoints, damaged, how, caplog):
    for step in (1, 2):
        checkpoints.write("task", step, make_state(step), {})
    path = checkpoints.folder / "task" / "step-00000002" / damaged
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3])
    assert checkpoints.newest("task").step == 1
    assert "step-00000002 is not whole" in caplog.text


def test_a_checkpoint_that_was_interrupted_is_not_there(checkpoints, monkeypatch):
    checkpoints.write("task", 1, make_state(1), {})

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.write("task", 2, make_state(2), {})
    monkeypatch.undo()
    assert checkpoints.newest("task").step == 1
    checkpoints.write("task", 2, make_state(2), {})
    checkpoints.keep_only("task", 2)
    assert [path.name for path in (checkpoints.folder / "task").iterdir()] == ["step-00000002"]


def test_a_finished_task_counts_before_its_steps(checkpoints):
    checkpoints.write("task", 9, make_state(9), {})
    checkpoints.write("task", 5, make_state(5), {}, finished=True)
    found = checkpoints.newest("task")
    assert (found.step, found.finished) == (5, True)
    state = make_state()
    found.read_into(state)
    assert values(state) == {5.0}
    checkpoints.keep_only("task")
    assert checkpoints.newest("task").finished
    checkpoints.forget("task")
    assert checkpoints.newest("task") is None


def test_a_checkpoint_of_something_else_is_refused_by_what_differs(checkpoints):
    checkpoints.write("task", 1, make_state(), {})
    other = Checkpoints(checkpoints.folder, {"rate": 0.1, "data": "d2", "shape": [2, 3], "seed": 4})
    with pytest.raises(InputError) as refused:
        other.newest("task")
    message = str(refused.value)
    assert 'data was "d1" and is "d2"; seed was null and is 4.' in message
    assert "rate" not in message
    assert f"remove {checkpoints.folder} to train anew" in message


def test_weights_that_do_not_fit_are_refused_by_file(checkpoints):
    checkpoints.write("task", 1, make_state(), {})
    found = checkpoints.newest("task")
    for tensors in ({"w": torch.zeros(7)}, {"other": torch.zeros(2, 3)}):
        with pytest.raises(InputError, match=r"encoder\.safetensors does not fit"):
            found.read_into(State({"encoder": tensors}, []))


def test_a_checkpoint_of_another_version_is_passed_over(checkpoints):
    checkpoints.write("task", 1, make_state(), {})
    path = checkpoints.folder / "task" / "step-00000001" / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 0}))
    assert checkpoints.newest("task") is None


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden"])
def test_a_task_needs_the_name_of_a_folder(checkpoints, name):
    with pytest.raises(InputError, match="no name for a folder"):
        checkpoints.newest(name)
