"""Training learns, stops when it should, and a run that was killed at any step ends bit for bit like one that was
not."""

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import open_tiny, some_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from toy_task import ToyTask, make_task, weights_of  # noqa: E402

from xmcspark.errors import ConfigError, InputError, StoreError  # noqa: E402
from xmcspark.neural import training_step  # noqa: E402
from xmcspark.neural.checkpoint import Checkpoints  # noqa: E402
from xmcspark.neural.fine_tune import FineTuned, fine_tune  # noqa: E402
from xmcspark.neural.optimizer import gradient_norm  # noqa: E402
from xmcspark.neural.progress import Progress  # noqa: E402
from xmcspark.neural.schedule import Rates  # noqa: E402
from xmcspark.neural.settings import EncoderSettings  # noqa: E402

SETTINGS: dict[str, Any] = {"batch_size": 8, "checkpoint_every": 3, "dropout": 0.2}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


class Runs:
    """Runs of one task, each from the start as a new process would: the encoder and the task are made anew."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.folder = model, folder

    def run(
        self,
        where: str = "run",
        *,
        resume: bool = True,
        mapped: bool = False,
        rates: Rates | None = None,
        **how: Any,
    ) -> tuple[FineTuned, dict[str, np.ndarray], ToyTask]:
        settings = {**SETTINGS, **how.pop("settings", {})}
        encoder = open_tiny(self.model, dropout=settings["dropout"])
        size = settings["batch_size"] * settings.get("accumulate", 1)
        task = make_task(self.folder / where, encoder, mapped=mapped, step_rows=size, **how)
        checkpoints = Checkpoints(self.folder / where / "checkpoints", {"data": "d1"}) if resume else None
        tuned = fine_tune(
            encoder,
            task,
            EncoderSettings(**settings),
            seed=5,
            checkpoints=checkpoints,
            rates=rates or Rates(),
        )
        return tuned, weights_of(encoder, task), task


@pytest.fixture
def runs(tiny_folder, tmp_path):
    return Runs(tiny_folder, tmp_path)


def test_training_learns(runs):
    tuned, weights, _ = runs.run(resume=False, steps=60, settings={"learning_rate": 1e-3, "dropout": 0.0})
    before, start, _ = runs.run("start", resume=False, steps=0)
    assert (tuned.steps, tuned.resumed_at, before.loss) == (60, None, None)
    first = runs.run("first", resume=False, steps=1, settings={"learning_rate": 1e-6, "dropout": 0.0})[0]
    assert tuned.loss is not None
    assert first.loss is not None
    assert tuned.loss < 0.5 * first.loss
    assert tuned.first_loss > tuned.loss
    assert all((weights[name] != start[name]).any() for name in weights), "all of it is trained"


@pytest.mark.parametrize(
    ("mapped", "accumulate", "die_at"),
    [(False, 1, 1), (False, 3, 9), (True, 1, 7), (True, 3, 3), (True, 1, 5)],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(runs, mapped, accumulate, die_at):
    how: dict[str, Any] = {"mapped": mapped, "settings": {"accumulate": accumulate}}
    whole, expected, _ = runs.run("whole", resume=False, **how)
    with pytest.raises(KeyboardInterrupt):
        runs.run("killed", die_at=die_at, **how)
    again, found, _ = runs.run("killed", **how)
    assert again.resumed_at == (die_at // 3 * 3 or None)
    assert same(found, expected)
    assert (again.loss, again.first_loss) == (whole.loss, whole.first_loss)


def test_a_checkpoint_is_due_after_minutes_as_well_as_after_steps(runs):
    seldom = {"checkpoint_every": 1000}
    for name, minutes, resumed in (("slow", 1e-9, 5), ("quick", 1000.0, None)):
        how = {"settings": {**seldom, "checkpoint_minutes": minutes}}
        with pytest.raises(KeyboardInterrupt):
            runs.run(name, die_at=5, **how)
        assert runs.run(name, **how)[0].resumed_at == resumed


EARLY_STOP: dict[str, Any] = {
    "steps": 20,
    "values": [0.1, 0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.3, 0.0, 0.9],
    "settings": {"validation": 0.1, "evaluate_every": 2, "patience": 2},
}


def test_training_stops_when_checks_gain_nothing_and_keeps_the_best_weights(runs):
    tuned, weights, task = runs.run(**EARLY_STOP)
    assert tuned.evaluations == ((2, 0.1), (4, 0.3), (6, 0.2), (8, 0.3))
    assert (tuned.steps, tuned.kept_step, tuned.validation) == (8, 4, 0.3)
    assert same(weights, task.seen[1])


@pytest.mark.parametrize(("mapped", "die_at"), [(False, 3), (True, 5), (True, 7)])
def test_a_killed_run_stops_early_at_the_same_step_with_the_same_weights(runs, mapped, die_at):
    whole, expected, _ = runs.run("whole", resume=False, mapped=mapped, **EARLY_STOP)
    with pytest.raises(KeyboardInterrupt):
        runs.run("killed", mapped=mapped, die_at=die_at, **EARLY_STOP)
    again, found, _ = runs.run("killed", mapped=mapped, **EARLY_STOP)
    assert again.resumed_at is not None
    assert same(found, expected)
    assert (again.steps, again.kept_step, again.evaluations) == (8, 4, whole.evaluations)


def test_best_weights_that_are_gone_are_an_error(runs, monkeypatch):
    monkeypatch.setattr(Checkpoints, "at", lambda *_: None)
    with pytest.raises(StoreError, match="checkpoint after step 4, whose weights were best, is gone"):
        runs.run(**EARLY_STOP)


def test_without_patience_the_last_weights_are_kept_whatever_checks_say(runs):
    tuned, weights, task = runs.run(
        steps=4, values=[0.9, 0.1], settings={"validation": 0.1, "evaluate_every": 1}
    )
    assert (tuned.steps, tuned.kept_step, tuned.validation) == (4, 4, 0.1)
    assert same(weights, task.seen[-1])


def test_a_finished_task_is_loaded_not_trained_again(runs):
    first, expected, _ = runs.run(values=[0.5])
    again, found, task = runs.run(values=[0.5], die_at=0)
    assert same(found, expected)
    assert (again.steps, again.resumed_at, again.loss, again.evaluations) == (
        10,
        10,
        first.loss,
        ((10, 0.5),),
    )
    assert not task.seen
    header = runs.folder / "run" / "checkpoints" / "toy" / "finished" / "checkpoint.json"
    assert again.seconds == json.loads(header.read_text())["facts"]["seconds"], "those it took to train"
    kept = sorted(path.name for path in (runs.folder / "run" / "checkpoints" / "toy").iterdir())
    assert kept == ["finished"]


def test_one_checkpoint_is_kept_and_that_of_the_best_step(runs):
    with pytest.raises(KeyboardInterrupt):
        runs.run(die_at=8)
    folder = runs.folder / "run" / "checkpoints" / "toy"
    assert [path.name for path in folder.iterdir()] == ["step-00000006"]
    with pytest.raises(KeyboardInterrupt):
        runs.run(
            "early", die_at=7, **{**EARLY_STOP, "settings": {**EARLY_STOP["settings"], "checkpoint_every": 1}}
        )
    folder = runs.folder / "early" / "checkpoints" / "toy"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000004", "step-00000007"]


def test_a_task_is_told_from_where_training_may_go_on(runs):
    _, _, task = runs.run(steps=7)
    assert task.kept_from == 7
    early = {**EARLY_STOP["settings"], "checkpoint_every": 1}
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToyTask, "checkpointed", lambda _, step: told.append(step))
        runs.run("early", **{**EARLY_STOP, "settings": early})
    assert told == [1, 2, 2, 4, 4, 4, 4, 4, 8], "the best checkpoint is one that may be gone back to"


def test_accumulated_passes_make_the_step_of_the_whole_batch(runs):
    """Also the last of an epoch, of 12 instances: at once, 6 + 6, or 4 + 4 + 4."""
    at_once, expected, _ = runs.run("1", resume=False, steps=4, settings={"dropout": 0.0, "batch_size": 24})
    for passes in (2, 3):
        settings = {"dropout": 0.0, "batch_size": 24 // passes, "accumulate": passes}
        tuned, found, _ = runs.run(str(passes), resume=False, steps=4, settings=settings)
        assert tuned.loss == pytest.approx(at_once.loss, abs=1e-5)
        for weight in expected:
            np.testing.assert_allclose(found[weight], expected[weight], atol=2e-4, err_msg=weight)


def test_a_run_may_go_on_with_smaller_passes(runs):
    """What the error about memory advises."""
    with pytest.raises(KeyboardInterrupt):
        runs.run(die_at=5)
    tuned, _, _ = runs.run(settings={"batch_size": 4, "accumulate": 2})
    assert tuned.resumed_at == 3


def test_another_seed_drops_other_values(tiny_folder, tmp_path):
    found = []
    for seed in (1, 1, 2):
        encoder = open_tiny(tiny_folder, dropout=0.3)
        task = make_task(tmp_path, encoder, step_rows=8, steps=2)
        fine_tune(encoder, task, EncoderSettings(batch_size=8), seed=seed)
        found.append(weights_of(encoder, task))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_training_leaves_random_numbers_alone(runs):
    torch.manual_seed(9)
    expected = torch.rand(1)
    torch.manual_seed(9)
    runs.run(resume=False, steps=1)
    assert torch.rand(1) == expected


def test_each_part_has_its_own_rate(runs):
    _, start, _ = runs.run("start", resume=False, steps=0)
    still = Rates(modules=[1e-12], tables=[1e-12])
    _, found, _ = runs.run("still", resume=False, steps=2, rates=still, settings={"weight_decay": 0.0})
    np.testing.assert_allclose(found["table.weights"], start["table.weights"], atol=1e-9)
    np.testing.assert_allclose(found["scale"], start["scale"], atol=1e-6)
    assert np.abs(found["model.embeddings.LayerNorm.weight"] - 1).max() > 1e-5
    _, cosine, _ = runs.run("cosine", resume=False, steps=4, rates=Rates(schedule="cosine"))
    _, linear, _ = runs.run("linear", resume=False, steps=4)
    assert not same(cosine, linear)
    with pytest.raises(InputError, match="2 learning rates were given for 1 tables"):
        runs.run("wrong", resume=False, steps=1, rates=Rates(tables=[1.0, 2.0]))


@pytest.mark.parametrize("clip", [0.01, 0.0])
def test_gradients_are_no_longer_than_the_limit(runs, monkeypatch, clip):
    plain, norms = training_step.scale_gradients, []

    def noted(weights, factor):
        plain(weights, factor)
        norms.append(gradient_norm(weights))

    monkeypatch.setattr(training_step, "scale_gradients", noted)
    runs.run("clipped", resume=False, steps=3, settings={"clip": clip})
    assert len(norms) == 3
    assert max(norms) == pytest.approx(clip, rel=1e-3) if clip else max(norms) > 0.02


def test_a_checkpoint_of_other_settings_is_refused_by_name(runs):
    with pytest.raises(KeyboardInterrupt):
        runs.run(die_at=5)
    with pytest.raises(InputError, match=r"encoder\.learning_rate was 0\.0001 and is 0\.5") as refused:
        runs.run(settings={"learning_rate": 0.5})
    assert "weight_decay" not in str(refused.value)
    with pytest.raises(InputError, match="steps was 10 and is 12"):
        runs.run(steps=12)


def test_a_loss_that_is_no_number_ends_training_with_advice(runs):
    with pytest.raises(InputError, match=r"loss of step 4 is nan.*lower encoder\.learning_rate"):
        runs.run(poison_at=4)


def test_a_gradient_without_end_ends_training_before_it_does_harm(runs, monkeypatch):
    monkeypatch.setattr("xmcspark.neural.training_step.gradient_norm", lambda weights: math.inf)
    with pytest.raises(InputError, match=r"the gradient of step 0 has no end.*lower encoder\.learning_rate"):
        runs.run()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_what_does_not_fit_into_memory_ends_with_what_would(runs, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(ToyTask, "loss", fails)
    with pytest.raises(InputError, match=r"encoder\.batch_size to 4 and encoder\.accumulate to 6"):
        runs.run(settings={"accumulate": 3})
    with pytest.raises(InputError, match=r"encoder\.batch_size to 3 and encoder\.accumulate to 6"):
        runs.run("odd", settings={"batch_size": 9, "accumulate": 2})
    with pytest.raises(InputError, match=r"set encoder\.max_length below 128"):
        runs.run("one", settings={"batch_size": 1})


def test_other_errors_are_not_taken_for_a_lack_of_memory(runs, monkeypatch):
    def fails(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(ToyTask, "loss", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        runs.run()


def test_an_empty_batch_is_refused(runs, monkeypatch):
    monkeypatch.setattr(ToyTask, "batch", lambda task, step: np.zeros(0, np.int64))
    with pytest.raises(InputError, match="the batch of step 0 is empty"):
        runs.run()


def test_a_precision_that_the_cpu_lacks_is_refused_before_training(runs):
    with pytest.raises(ConfigError, match="fp16"):
        runs.run(settings={"precision": "fp16", "device": "cpu"})


def test_the_log_tells_of_device_loss_and_time_but_never_of_texts(runs, caplog):
    with caplog.at_level(logging.INFO):
        runs.run(steps=4, values=[0.25])
    assert "toy: 4 steps on cpu, fp32, 1 thread, process 1 of 1" in caplog.text
    assert "step 4 of 4, loss" in caplog.text
    assert "texts/s" in caplog.text
    assert "validation 0.2500 after 4 steps" in caplog.text
    assert not any(text in caplog.text for text in some_texts(60, seed=1) if " " in text)


def test_progress_is_reported(tiny_encoder, tmp_path):
    told = []
    task = make_task(tmp_path, tiny_encoder, step_rows=8, steps=3)
    fine_tune(tiny_encoder, task, EncoderSettings(batch_size=8), seed=1, report=told.append)
    assert (told[-1].step, told[-1].steps, told[-1].seconds_left) == (3, 3, 0)
    assert told[-1].texts_per_second > 0
    shown = str(Progress("level-1", 30, 40, 0.12345, 41.6, 125.4))
    assert shown == "level-1: step 30 of 40, loss 0.1235, 42 texts/s, 2 min 05 s left"
    assert not tiny_encoder.training
