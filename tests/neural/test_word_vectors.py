"""Word vectors in training: the gradients of torch's own, whatever the passes, in one table."""

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch

from xmcspark.neural.batch import Batch
from xmcspark.neural.word_vectors import WordVectors

TEXTS = ["red box", "red", "blue lamp red box"]


def gradients(encoder, passes):
    for texts in passes:
        encoder.unit(Batch.of(encoder.tokenize(texts), encoder.pad))[:, 0].sum().backward()
    found = {
        name: weight.grad.clone() for name, weight in encoder.named_parameters() if weight.grad is not None
    }
    encoder.zero_grad()
    return found


@pytest.mark.parametrize("passes", [[TEXTS], [[text] for text in TEXTS], [TEXTS[:1], TEXTS[1:]]])
def test_gradients_are_those_of_torch(tiny_encoder, passes):
    expected = gradients(tiny_encoder, [TEXTS])
    tiny_encoder.train_words(True)
    assert type(tiny_encoder.model.get_input_embeddings()) is WordVectors
    found = gradients(tiny_encoder, passes)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


def test_words_that_stay_have_no_gradient(tiny_encoder):
    tiny_encoder.train_words(False)
    words = tiny_encoder.model.get_input_embeddings().weight
    gradients(tiny_encoder, [TEXTS])
    assert words.grad is None
    tiny_encoder.train_words(True)
    assert gradients(tiny_encoder, [TEXTS])
    assert words.requires_grad


def test_weights_are_shared_and_keep_their_names(tiny_encoder):
    names, hashed = list(tiny_encoder.state_dict()), tiny_encoder.weights_hash()
    words = tiny_encoder.model.get_input_embeddings()
    tiny_encoder.train_words(True)
    assert tiny_encoder.model.get_input_embeddings().weight is words.weight
    assert (list(tiny_encoder.state_dict()), tiny_encoder.weights_hash()) == (names, hashed)


def test_padding_learns_nothing_and_every_use_of_a_word_counts():
    words = WordVectors.of(torch.nn.Embedding(5, 3, padding_idx=0))
    words(torch.tensor([[1, 2, 1], [2, 0, 0]])).sum().backward()
    words(torch.tensor([[4, 1]])).sum().backward()
    np.testing.assert_array_equal(words.weight.grad.numpy()[:, 0], [0, 3, 2, 0, 1])


def test_memory_is_that_of_one_gradient_however_many_passes():
    """torch's own gradients of all passes of a step are held until the last: here there is one table, of 26 MB."""
    words = WordVectors.of(torch.nn.Embedding(100_000, 64))
    loss = sum(words(torch.arange(10) + start).sum() for start in range(0, 200, 10))
    with torch.profiler.profile(profile_memory=True) as found:
        loss.backward()
    largest = [event for event in found.events() if event.self_cpu_memory_usage >= 100_000 * 64 * 4]
    assert sum(event.self_cpu_memory_usage for event in largest) == 100_000 * 64 * 4
    assert int(words.weight.grad[:, 0].sum()) == 200


def test_gradients_do_not_depend_on_which_thread_comes_first():
    rng, found = torch.Generator().manual_seed(1), []
    ids = torch.randint(50, (512, 40), generator=rng)
    values = torch.randn(512, 40, 384, generator=rng)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(8):
            words = WordVectors.of(torch.nn.Embedding(50, 384, padding_idx=0))
            (words(ids) * values).sum().backward()
            found.append(words.weight.grad)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(gradient, found[0]) for gradient in found)


def test_gradients_of_products_in_bf16_come_back_as_those_of_the_vectors():
    words = WordVectors.of(torch.nn.Embedding(20, 8))
    ids = torch.arange(20).reshape(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        found = (words(ids) @ torch.ones(8, 3)).float()
    found.sum().backward()
    assert words.weight.grad.dtype == torch.float32
    torch.testing.assert_close(words.weight.grad, torch.full((20, 8), 3.0))


@pytest.mark.parametrize("how", [{"scale_grad_by_freq": True}, {"max_norm": 1.0}])
def test_vectors_with_ways_of_their_own_are_left_alone(how):
    assert WordVectors.fits(torch.nn.Embedding(4, 2))
    assert not WordVectors.fits(torch.nn.Embedding(4, 2, **how))
    assert not WordVectors.fits(WordVectors.of(torch.nn.Embedding(4, 2)))
