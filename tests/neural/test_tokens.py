"""Tokens on disk are those of the tokenizer, and only of that one."""

import numpy as np
import pytest
from tiny_model import SPECIAL, open_tiny, save_tiny_model, some_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from xmcspark.errors import InputError  # noqa: E402
from xmcspark.neural.tokens import TokenStore  # noqa: E402

TEXTS = [*some_texts(30), "", "xyzzy"]


@pytest.mark.parametrize("portion", [1, 7, 100])
def test_tokens_do_not_depend_on_portions(tiny_encoder, tmp_path, portion):
    told = []
    portions = (TEXTS[at : at + portion] for at in range(0, len(TEXTS), portion))
    written = TokenStore.write(tmp_path, tiny_encoder, portions, told.append)
    store = TokenStore.open(tmp_path, tiny_encoder)
    expected = tiny_encoder.tokenize(TEXTS)
    assert len(store) == len(written) == told[-1] == len(TEXTS)
    assert store.lengths.tolist() == [len(row) for row in expected]
    batch = store.batch(np.arange(len(TEXTS)))
    rows = [ids[mask == 1].tolist() for ids, mask in zip(batch.ids, batch.mask, strict=True)]
    assert rows == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["header.json", "ids.npy", "offsets.npy"]


def test_a_batch_is_padded_to_its_longest_row(tiny_encoder, tmp_path):
    store = TokenStore.write(tmp_path, tiny_encoder, [TEXTS])
    rows = np.array([31, 3, 30])
    batch = store.batch(rows)
    assert batch.ids.shape == (3, store.lengths[rows].max())
    assert (batch.ids[batch.mask == 0] == SPECIAL.index("[PAD]")).all()
    assert batch.mask.sum(dim=1).tolist() == store.lengths[rows].tolist()


def test_no_texts_are_a_store_without_rows(tiny_encoder, tmp_path):
    assert len(TokenStore.write(tmp_path, tiny_encoder, [[]])) == 0


def test_tokens_of_another_tokenizer_or_length_are_refused(tiny_encoder, make_tiny, tmp_path):
    TokenStore.write(tmp_path / "tokens", tiny_encoder, [TEXTS])
    with pytest.raises(InputError, match="tokenised with max_length 16, and the encoder has 12"):
        TokenStore.open(tmp_path / "tokens", make_tiny(max_length=12))
    other = open_tiny(save_tiny_model(tmp_path / "other", tokens=[*SPECIAL, "cat", "dog"]))
    with pytest.raises(InputError, match="tokenised with vocabulary_hash"):
        TokenStore.open(tmp_path / "tokens", other)


def test_a_store_that_was_not_finished_or_is_damaged_is_refused(tiny_encoder, tmp_path):
    def broken():
        yield TEXTS
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        TokenStore.write(tmp_path, tiny_encoder, broken())
    with pytest.raises(InputError, match=r"has no header\.json"):
        TokenStore.open(tmp_path)
    TokenStore.write(tmp_path, tiny_encoder, [TEXTS])
    path = tmp_path / "ids.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"ids\.npy is damaged"):
        TokenStore.open(tmp_path)
