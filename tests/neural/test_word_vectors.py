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
    """torch's own gradients of all passes of a step are held until the last: here the table is made once."""
    words = WordVectors.of(torch.nn.Embedding(1000, 8))
    loss = sum(words(torch.arange(10) + start).sum() for start in range(0, 500, 10))
    made = []
    empty = torch.zeros_like

    def counted(*arguments, **named):
        made.append(arguments[0].shape)
        return empty(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "zeros_like", counted)
        loss.backward()
    assert made == [(1000, 8)]
    assert int(words.weight.grad[:, 0].sum()) == 500


@pytest.mark.parametrize("how", [{"scale_grad_by_freq": True}, {"max_norm": 1.0}])
def test_vectors_with_ways_of_their_own_are_left_alone(how):
    assert WordVectors.fits(torch.nn.Embedding(4, 2))
    assert not WordVectors.fits(torch.nn.Embedding(4, 2, **how))
    assert not WordVectors.fits(WordVectors.of(torch.nn.Embedding(4, 2)))
