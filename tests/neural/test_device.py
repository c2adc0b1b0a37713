"""What the machine cannot do is said before training, with what to set instead."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from xmcspark.errors import ConfigError  # noqa: E402
from xmcspark.neural import device as module  # noqa: E402
from xmcspark.neural.available import require_torch, torch_is_there  # noqa: E402
from xmcspark.neural.device import chosen_device, torch_threads  # noqa: E402
from xmcspark.neural.settings import EncoderSettings  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_trial():
    module._bf16_outcome.cache_clear()
    yield
    module._bf16_outcome.cache_clear()


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def died_with(code: int):
    return lambda *args, **how: SimpleNamespace(returncode=code)


def test_without_a_gpu_auto_is_the_cpu(no_gpu):
    found = chosen_device(EncoderSettings())
    assert (found.torch.type, found.precision) == ("cpu", "fp32")
    assert found.described == "cpu, fp32, 1 thread"


def test_a_gpu_that_is_not_there_is_refused(no_gpu):
    with pytest.raises(ConfigError, match="torch finds no GPU"):
        chosen_device(EncoderSettings(device="cuda"))


def test_half_precision_on_the_cpu_is_refused(no_gpu):
    with pytest.raises(ConfigError, match=r"set encoder\.precision to fp32"):
        chosen_device(EncoderSettings(precision="fp16"))


def test_bf16_that_kills_the_trial_is_refused_with_advice(no_gpu, monkeypatch):
    monkeypatch.setattr(subprocess, "run", died_with(-signal.SIGILL))
    with pytest.raises(ConfigError, match=r"illegal instruction.*ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"):
        chosen_device(EncoderSettings(precision="bf16"))
    module._bf16_outcome.cache_clear()
    monkeypatch.setattr(subprocess, "run", died_with(1))
    with pytest.raises(ConfigError, match="exit code 1"):
        chosen_device(EncoderSettings(precision="bf16"))


def test_bf16_that_survives_the_trial_is_used(no_gpu, monkeypatch):
    monkeypatch.setattr(subprocess, "run", died_with(0))
    found = chosen_device(EncoderSettings(precision="bf16"))
    with found.autocast():
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_the_trial_itself_runs_in_a_process_of_its_own(monkeypatch):
    """It ends well, or by the signal it is there to catch; never by a mistake of its own."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    code = subprocess.run([sys.executable, "-c", module._BF16_TRIAL], capture_output=True, check=False)
    assert (code.returncode, code.stderr) == (0, b"")


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with torch_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


def test_without_torch_the_remedy_is_named(monkeypatch):
    assert torch_is_there()
    monkeypatch.setattr("xmcspark.neural.available.find_spec", lambda name: None if name == "torch" else name)
    assert not torch_is_there()
    with pytest.raises(ConfigError, match=r"method: unidec needs torch.*pip install 'xmcspark\[neural\]'"):
        require_torch("method: unidec")
