"""Embeddings come in the order of the rows asked for, whatever order the work is done in."""

import numpy as np
import pytest
from tiny_model import some_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from xmcspark.errors import InputError  # noqa: E402
from xmcspark.neural.device import Device  # noqa: E402
from xmcspark.neural.embed import embed, embed_texts  # noqa: E402
from xmcspark.neural.embedder import Embedder  # noqa: E402
from xmcspark.neural.tokens import TokenStore  # noqa: E402

TEXTS = [*some_texts(40), ""]


@pytest.fixture
def tokens(tiny_encoder, tmp_path):
    return TokenStore.write(tmp_path / "tokens", tiny_encoder, [TEXTS])


def test_embeddings_are_those_of_each_text_alone(tiny_encoder, tokens):
    alone = np.array([tiny_encoder.embed_one(text) for text in TEXTS])
    for batch in (1, 7, 64):
        np.testing.assert_allclose(embed(tiny_encoder, tokens, batch=batch), alone, atol=2e-6)
        np.testing.assert_allclose(embed_texts(tiny_encoder, TEXTS, batch=batch), alone, atol=2e-6)


def test_rows_come_in_the_order_asked_for(tiny_encoder, tokens):
    rows = np.array([5, 40, 0, 5, 17])
    whole = embed(tiny_encoder, tokens)
    np.testing.assert_allclose(embed(tiny_encoder, tokens, rows), whole[rows], atol=2e-6)
    assert embed(tiny_encoder, tokens, np.zeros(0, np.int64)).shape == (0, 64)
    assert embed_texts(tiny_encoder, []).shape == (0, 64)


def test_embedding_leaves_the_encoder_as_it_was_and_drops_nothing(make_tiny, tokens):
    encoder = make_tiny(dropout=0.5)
    expected = embed(encoder, tokens)
    encoder.train()
    assert (embed(encoder, tokens) == expected).all()
    assert encoder.training
    assert not any(weight.grad is not None for weight in encoder.parameters())


def test_texts_that_do_not_fit_into_memory_end_with_what_would(tiny_encoder, tokens, monkeypatch):
    def full(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(type(tiny_encoder), "forward", full)
    with pytest.raises(
        InputError, match=r"over 10 texts of up to 14 tokens .* set encoder\.embed_batch to 5"
    ):
        embed(tiny_encoder, tokens, batch=10)
    with pytest.raises(InputError, match=r"set encoder\.max_length below 14"):
        embed_texts(tiny_encoder, TEXTS, batch=1)


def test_only_drafts_are_as_rough_as_training(tiny_encoder, tokens, monkeypatch):
    """What rankers, indexes and people read is in float32 whatever training was in."""
    rough, forward = [], type(tiny_encoder).forward

    def noted(encoder, batch):
        rough.append(torch.is_autocast_enabled("cpu"))
        with torch.autocast("cpu", enabled=False):  # bf16 may be an illegal instruction here
            return forward(encoder, batch)

    monkeypatch.setattr(type(tiny_encoder), "forward", noted)
    device = Device(torch.device("cpu"), "bf16")
    embed(tiny_encoder, tokens, device=device)
    embed_texts(tiny_encoder, TEXTS, device=device)
    Embedder(device=device).embedded(tiny_encoder, tokens)
    assert not any(rough)
    rough.clear()
    drafted = Embedder(device=device, draft=True).embedded(tiny_encoder, tokens)
    assert rough
    assert all(rough)
    assert drafted.dtype == np.float32
