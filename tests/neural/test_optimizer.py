"""What decays, what is clipped, and how half precision finds its scale."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from toy_task import Scale, make_task, weights_of  # noqa: E402

from xmcspark.neural.device import Device  # noqa: E402
from xmcspark.neural.fine_tune import fine_tune  # noqa: E402
from xmcspark.neural.optimizer import (  # noqa: E402
    LossScale,
    clipping,
    gradient_norm,
    make_optimizer,
    module_tensors,
    set_rates,
    state_tensors,
)
from xmcspark.neural.settings import EncoderSettings  # noqa: E402


def test_matrices_decay_and_biases_scales_and_temperatures_do_not(tiny_encoder):
    optimizer = make_optimizer(tiny_encoder, [Scale()], [0.5], EncoderSettings(weight_decay=0.1))
    names = {id(weight): name for name, weight in tiny_encoder.named_parameters()}
    decay = {
        names.get(id(weight), "temperature"): group["weight_decay"]
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    assert len(decay) == len(names) + 1
    still = {name for name, value in decay.items() if value == 0}
    assert still == {n for n in decay if n.endswith("bias") or "LayerNorm" in n or n == "temperature"}
    set_rates(optimizer, 0.5)
    assert {group["lr"] for group in optimizer.param_groups} == {EncoderSettings().learning_rate / 2, 0.25}


def test_the_state_made_beforehand_is_the_one_that_adamw_starts_from():
    """Made by us so that checkpoints have names for it: a step must not notice."""
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
    settings = EncoderSettings(learning_rate=0.1, weight_decay=0.01)
    ours, plain = torch.nn.Linear(4, 3, bias=False), torch.nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        ours.weight.copy_(start)
        plain.weight.copy_(start)
    optimizers = [
        make_optimizer(ours, [], [], settings),
        torch.optim.AdamW(plain.parameters(), lr=0.1, weight_decay=0.01),
    ]
    for _ in range(4):
        x = torch.from_numpy(rng.standard_normal((5, 4)).astype(np.float32))
        for layer, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, plain.weight)
    assert state_tensors(optimizers[0]).keys() == {"0.step", "0.exp_avg", "0.exp_avg_sq"}


def test_shared_weights_and_buffers_are_kept_once():
    layer = torch.nn.Linear(2, 2)
    module = torch.nn.Sequential(layer, torch.nn.BatchNorm1d(2), layer)
    module.register_buffer("fleeting", torch.zeros(1), persistent=False)
    assert module_tensors(module).keys() == {
        *("0.weight", "0.bias", "1.weight", "1.bias"),
        *("1.running_mean", "1.running_var", "1.num_batches_tracked"),
    }


def test_clipping_brings_the_norm_down_to_the_limit():
    weights = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    weights[0].grad = torch.tensor([3.0, 4.0])
    assert gradient_norm(weights) == 5
    assert clipping(5.0, 1.0) == 0.2
    assert clipping(0.5, 1.0) == clipping(5.0, 0.0) == clipping(math.inf, 1.0) == 1
    assert gradient_norm([]) == 0


def test_the_scale_is_halved_when_gradients_overflow_and_doubled_after_a_while():
    scale = LossScale(True, scale=4.0, patience=2)
    assert not scale.accepts(False)
    assert scale.factor == 2
    assert [scale.accepts(True), scale.accepts(True)] == [True, True]
    assert scale.factor == 4
    for _ in range(5):
        scale.accepts(False)
    assert scale.factor == 1, "never below 1"
    assert LossScale(False).factor == 1


def test_training_in_half_precision_is_training(tiny_encoder, make_tiny, tmp_path, monkeypatch):
    """On the CPU, where it is slow and settings refuse it: scaling works the same. From a scale at which nothing
    overflows, so that both make the same steps."""
    monkeypatch.setattr(
        "xmcspark.neural.training_step.LossScale", lambda active: LossScale(active, scale=256.0)
    )
    other = make_tiny()
    half = Device(torch.device("cpu"), "fp16")
    settings = EncoderSettings(batch_size=8)
    tasks = [make_task(tmp_path / name, tiny_encoder, step_rows=8, steps=6) for name in ("half", "full")]
    tuned = fine_tune(tiny_encoder, tasks[0], settings, seed=1, device=half)
    expected = fine_tune(other, tasks[1], settings, seed=1)
    assert tuned.loss == pytest.approx(expected.loss, abs=0.02)
    found, full = weights_of(tiny_encoder, tasks[0]), weights_of(other, tasks[1])
    for name in full:
        np.testing.assert_allclose(found[name], full[name], atol=6e-3, err_msg=name)


def test_a_step_that_overflows_moves_nothing(tiny_encoder, tmp_path, monkeypatch):
    task = make_task(tmp_path, tiny_encoder, step_rows=8, steps=2)
    before = weights_of(tiny_encoder, task)
    monkeypatch.setattr("xmcspark.neural.row_table.RowTable.pending_is_finite", lambda table: False)
    fine_tune(tiny_encoder, task, EncoderSettings(), seed=1, device=Device(torch.device("cpu"), "fp16"))
    after = weights_of(tiny_encoder, task)
    assert all((before[name] == after[name]).all() for name in before)
