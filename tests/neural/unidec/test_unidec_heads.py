"""Heads: what they compute, that similarities start as the encoder's, and that saving keeps them."""

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from unidec_set import small_heads

from xmcspark.errors import InputError
from xmcspark.neural.unidec.heads import ClassifierHead, DualHead, Heads, rotation
from xmcspark.neural.unidec.vectors import SearchSpace


def some_embeddings(rows=5, width=64):
    return torch.nn.functional.normalize(
        torch.from_numpy(np.random.default_rng(0).normal(size=(rows, width))).float()
    )


def test_dual_is_linear_tanh_and_length_one_and_classifier_is_linear():
    heads, E = small_heads(), some_embeddings()
    linear = heads.dual.linear
    expected = torch.tanh(E @ linear.weight.T + linear.bias)
    expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(heads.dual(E), expected)
    linear = heads.classifier.linear
    torch.testing.assert_close(heads.classifier(E), E @ linear.weight.T + linear.bias)


def test_dropout_works_in_training_only():
    head = ClassifierHead(64, 32, 0.5, 0.1, False, 0)
    E = some_embeddings()
    assert (head(E) == 0).any()
    head.eval()
    assert not (head(E) == 0).any()


def test_similarities_start_as_those_of_the_encoder():
    E = some_embeddings(8)
    for head in (DualHead(64, 64, 0.0, 0.05, False, 3), ClassifierHead(64, 64, 0.0, 0.05, False, 3)):
        found = head.searched(E)
        torch.testing.assert_close(found @ found.T, E @ E.T, atol=0.02, rtol=0)


def test_rotation_has_right_angles_along_the_shorter_side():
    for rows, columns in ((5, 9), (9, 5)):
        R = rotation(rows, columns, 1)
        np.testing.assert_allclose(R @ R.T if rows < columns else R.T @ R, np.eye(5), atol=1e-5)
    assert not np.allclose(rotation(4, 4, 0), rotation(4, 4, 1))


def test_a_temperature_is_learned_only_if_asked_for_and_never_too_cold():
    fixed, learned = DualHead(4, 4, 0.0, 0.05, False, 0), DualHead(4, 4, 0.0, 0.05, True, 0)
    assert fixed.temperature.item() == pytest.approx(0.05)
    assert not fixed.log_temperature.requires_grad
    assert learned.log_temperature.requires_grad
    with torch.no_grad():
        learned.log_temperature.fill_(-20)
    assert learned.temperature.item() == pytest.approx(0.01)
    assert DualHead(4, 4, 0.0, 0.005, False, 0).temperature.item() == pytest.approx(0.005)


def test_saved_heads_are_the_same(tmp_path):
    heads = small_heads(learned=True)
    heads.save(tmp_path / "both")
    E = some_embeddings().numpy()
    found = Heads.load(tmp_path / "both")
    np.testing.assert_array_equal(SearchSpace(found).queries(E), SearchSpace(heads).queries(E))
    assert found.classifier.offset.item() == heads.classifier.offset.item()
    small_heads(classifier=False).save(tmp_path / "dual")
    assert Heads.load(tmp_path / "dual").classifier is None


def test_a_model_without_heads_is_refused():
    with pytest.raises(InputError, match="at least one head"):
        Heads()
    with pytest.raises(InputError, match="no such head"):
        SearchSpace(small_heads(dual=False), "dual")
