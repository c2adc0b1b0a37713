"""Encoders are pooled as the definitions say, have length 1, come back from disk bit for bit, and do not open unless
they can be trained."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_model import SPECIAL, WORDS, open_tiny, save_tiny_model, some_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.numpy import load_file, save_file  # noqa: E402

from xmcspark.errors import ConfigError, InputError  # noqa: E402
from xmcspark.neural.batch import Batch  # noqa: E402
from xmcspark.neural.encoder import TextEncoder  # noqa: E402

TEXTS = ["cat", "the old river and the sea", "", "xyzzy dog", " ".join(WORDS)]


def embedded(encoder, texts=TEXTS) -> np.ndarray:
    with torch.inference_mode():
        return encoder(Batch.of(encoder.tokenize(texts), encoder.pad)).numpy()


def last_states(encoder, text: str) -> np.ndarray:
    """The last layer of one text alone, without padding or mask."""
    with torch.inference_mode():
        ids = torch.tensor(encoder.tokenize([text]))
        return encoder.model(input_ids=ids).last_hidden_state[0].numpy().astype(np.float64)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_mean_pooling_averages_the_tokens_that_are_there(make_tiny):
    encoder = make_tiny(pooling="mean")
    expected = [unit(last_states(encoder, text).mean(axis=0)) for text in TEXTS]
    np.testing.assert_allclose(embedded(encoder), expected, atol=2e-6)


def test_cls_pooling_takes_the_state_of_the_cls_token(make_tiny):
    encoder = make_tiny(pooling="cls")
    expected = [unit(last_states(encoder, text)[0]) for text in [*TEXTS, "dog [CLS] cat"]]
    np.testing.assert_allclose(embedded(encoder, [*TEXTS, "dog [CLS] cat"]), expected, atol=2e-6)


def test_cls_pooling_finds_a_cls_token_at_the_end(tmp_path):
    """As XLNet's tokenizer puts it; a text that holds the word itself does not confuse it."""
    folder = with_single(save_tiny_model(tmp_path / "model"), lambda single: [*single[1:], single[0]])
    encoder = open_tiny(folder, pooling="cls")
    texts = ["cat", "dog [CLS] cat bird", "the old river and the sea"]
    assert all(row[-1] == encoder.tokenizer.cls_token_id for row in encoder.tokenize(texts))
    expected = [unit(last_states(encoder, text)[-1]) for text in texts]
    np.testing.assert_allclose(embedded(encoder, texts), expected, atol=2e-6)


def with_single(folder: Path, change: Callable[[list], list]) -> Path:
    """Another rule for the special tokens of a text."""
    path = folder / "tokenizer.json"
    rules = json.loads(path.read_text())
    rules["post_processor"]["single"] = change(rules["post_processor"]["single"])
    path.write_text(json.dumps(rules))
    # BERT's own class makes the rule it knows; this one follows the file.
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_embeddings_have_length_1(make_tiny, pooling):
    lengths = np.linalg.norm(embedded(make_tiny(pooling=pooling), some_texts(50)), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_a_vector_of_zeros_stays_zero(tiny_encoder):
    """Scaled to length 1 it would be no number, forward or backward."""
    with torch.no_grad():
        norm = tiny_encoder.model.encoder.layer[-1].output.LayerNorm
        norm.weight.zero_()
        norm.bias.zero_()
    found = tiny_encoder(Batch.of(tiny_encoder.tokenize(["cat"]), 0))
    found.sum().backward()
    assert (found == 0).all()
    assert all(w.grad is None or torch.isfinite(w.grad).all() for w in tiny_encoder.parameters())


def test_one_text_alone_gets_the_embedding_it_has_in_a_batch(tiny_encoder):
    tiny_encoder.train()
    alone = np.array([tiny_encoder.embed_one(text) for text in TEXTS])
    assert tiny_encoder.training
    tiny_encoder.eval()
    np.testing.assert_allclose(alone, embedded(tiny_encoder), atol=2e-6)


def test_an_encoder_that_was_saved_is_the_same_bit_for_bit(make_tiny, tmp_path):
    encoder = make_tiny(pooling="cls", max_length=9, dropout=0.3)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(1.01)
    encoder.save(tmp_path / "saved")
    again = TextEncoder.load(tmp_path / "saved")
    assert (embedded(again) == embedded(encoder)).all()
    assert again.identity() == encoder.identity()
    assert (again.pooling, again.max_length, again.dropout) == ("cls", 9, 0.3)
    assert not list((tmp_path / "saved").glob("*.bin"))


SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
FAMILIES = {
    "RobertaConfig": {**SHAPE, "max_position_embeddings": 66},
    "DistilBertConfig": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "XLNetConfig": {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 64},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_other_families_of_transformers_are_encoders_too(tmp_path, family):
    import transformers

    folder = save_tiny_model(tmp_path / "model")
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    config = getattr(transformers, family)(vocab_size=rows, **FAMILIES[family])
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    encoder = open_tiny(folder, pooling="cls", dropout=0.4)
    encoder.save(tmp_path / "saved")
    expected = embedded(encoder)
    assert (embedded(TextEncoder.load(tmp_path / "saved")) == expected).all()
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-6)
    encoder.train()
    E = encoder(Batch.of(encoder.tokenize(TEXTS), encoder.pad))
    (E * torch.arange(1.0, 65.0)).sum().backward()  # some values are always left
    assert encoder.model.get_input_embeddings().weight.grad.abs().sum() > 0
    assert {part.p for part in encoder.modules() if isinstance(part, torch.nn.Dropout)} <= {0.4}


def test_dropout_is_on_in_training_alone(make_tiny):
    encoder = make_tiny(dropout=0.5)
    assert (embedded(encoder) == embedded(encoder)).all()
    encoder.train()
    torch.manual_seed(1)
    once, again = embedded(encoder), embedded(encoder)
    assert (once != again).any()
    assert 0.3 < (once == 0).mean() < 0.7, "dropout comes after pooling, at the share asked for"
    assert (
        encoder.model.config.hidden_dropout_prob == encoder.model.config.attention_probs_dropout_prob == 0.5
    )


def test_texts_are_cut_to_max_length_with_their_special_tokens(make_tiny):
    encoder = make_tiny(max_length=6)
    cls, sep = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    rows = encoder.tokenize([" ".join(WORDS), ""])
    assert (len(rows[0]), rows[0][0], rows[0][-1]) == (6, cls, sep)
    assert rows[1] == [cls, sep]
    assert encoder.tokenize([]) == []


def test_weights_in_half_precision_are_opened_in_full(tmp_path):
    folder = save_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v.astype(np.float16) for k, v in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    assert {weight.dtype for weight in open_tiny(folder).parameters()} == {torch.float32}


def test_opening_an_encoder_says_nothing_and_leaves_random_numbers_alone(tiny_folder, capfd):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    open_tiny(tiny_folder)
    assert torch.rand(1) == expected
    assert capfd.readouterr() == ("", "")


def test_a_real_encoder_finds_like_texts_alike(minilm_folder):
    encoder = TextEncoder.open(str(minilm_folder), pooling="mean", max_length=32, dropout=0.1)
    assert encoder.width == 384
    whale, sea, tax = embedded(encoder, ["The white whale", "Hunting a sperm whale at sea", "Income tax law"])
    assert whale @ sea > 0.5 > 0.2 > whale @ tax


# What does not open


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match=r"/nowhere/model, and there is no such folder"):
        open_tiny(Path("/nowhere/model"))


def test_a_name_on_the_hub_needs_the_cache_when_offline(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="hf download some-team/some-model") as refused:
        open_tiny(Path("some-team/some-model"))
    assert "Give a folder" in str(refused.value)
    with pytest.raises(ConfigError, match="neither a folder nor a name on the hub"):
        open_tiny(Path("no name at all"))


def test_a_name_on_the_hub_opens_from_the_cache(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--some-team--some-model"
    shutil.copytree(tiny_folder, place / "snapshots" / "abc")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("abc")
    assert open_tiny(Path("some-team/some-model")).width == 64


def test_what_the_cache_lacks_of_a_model_is_fetched(tiny_folder, tmp_path, monkeypatch):
    """As where only its tokenizer was opened before. The same files are looked for in the cache and on the hub: a
    cache without the others is whole."""
    cached = copied(tiny_folder, tmp_path, "model.safetensors")
    asked = []

    def hub(model, local_files_only=False, **files):
        asked.append(files | {"etag_timeout": None})
        return str(cached if local_files_only else tiny_folder)

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    assert open_tiny(Path("a/b")).width == 64
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert "*.bin" not in asked[0]["allow_patterns"]


def test_a_hub_that_cannot_be_reached_is_said_so(tmp_path, monkeypatch):
    def unreachable(*args, **how):
        raise OSError("no route")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(ConfigError, match=r"hub cannot be reached.*hf download a/b"):
        open_tiny(Path("a/b"))


def copied(tiny_folder: Path, tmp_path: Path, *without: str) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    for name in without:
        (folder / name).unlink()
    return folder


def test_a_folder_without_a_config_is_refused(tiny_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        open_tiny(copied(tiny_folder, tmp_path, "config.json"))


def test_a_folder_that_cannot_be_read_is_refused(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path, "config.json")
    (folder / "config.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        open_tiny(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be read"):
        open_tiny(tmp_path / "file")


def test_pickled_weights_are_refused_with_how_to_convert_them(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path, "model.safetensors")
    with pytest.raises(ConfigError, match=r"has no model\.safetensors"):
        open_tiny(folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"pickled weights only.*save_pretrained"):
        open_tiny(folder)


def test_a_folder_without_a_tokenizer_is_refused(tiny_folder, tmp_path):
    with pytest.raises(ConfigError, match="has no tokenizer"):
        open_tiny(copied(tiny_folder, tmp_path, "tokenizer.json", "tokenizer_config.json"))


def test_a_tokenizer_of_another_model_is_refused(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path)
    other = save_tiny_model(tmp_path / "other", tokens=[*SPECIAL, *(f"word{n}" for n in range(500))])
    shutil.copy(other / "tokenizer.json", folder)
    with pytest.raises(ConfigError, match=r"numbers tokens up to 504.*do not belong together"):
        open_tiny(folder)


def test_weights_of_another_model_are_refused(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ConfigError, match=r"lacks \d+ weights.*encoder\.layer\.2"):
        open_tiny(folder)


def test_damaged_files_are_refused_by_name(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path)
    (folder / "model.safetensors").write_bytes(b"\x10")
    with pytest.raises(ConfigError, match=r"model\.safetensors is cut short"):
        open_tiny(folder)
    header = b'{"a": {"dtype": "none", "shape": [1], "data_offsets": [0, 0]}}'
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ConfigError, match=r"the model in .* cannot be opened"):
        open_tiny(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"the tokenizer in .* cannot be opened"):
        open_tiny(folder)


def test_a_model_with_a_decoder_is_refused(tiny_folder, tmp_path):
    folder = copied(tiny_folder, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "is_encoder_decoder": True}))
    with pytest.raises(ConfigError, match="encoder and decoder"):
        open_tiny(folder)


def test_more_tokens_than_the_model_has_places_for_are_refused(tiny_folder):
    with pytest.raises(
        ConfigError, match=r"max_length is 65.*reads 64 tokens: set encoder\.max_length to 64"
    ):
        open_tiny(tiny_folder, max_length=65)


def test_places_that_padding_takes_are_not_counted(tmp_path):
    """RoBERTa has 514 rows of places and reads 512 tokens."""
    from transformers import RobertaConfig, RobertaModel

    from xmcspark.neural.encoder import _positions

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = RobertaModel(RobertaConfig(vocab_size=9, max_position_embeddings=514, pad_token_id=1, **shape))
    assert _positions(model) == 512


def test_cls_pooling_without_a_cls_token_is_refused(tmp_path):
    folder = with_single(save_tiny_model(tmp_path / "model"), lambda single: single[1:2])
    with pytest.raises(ConfigError, match=r"puts no CLS token: set encoder\.pooling to mean"):
        open_tiny(folder, pooling="cls")
    encoder = open_tiny(folder, pooling="mean")
    assert np.isfinite(encoder.embed_one("")).all(), "an empty text has something to read all the same"


def test_a_saved_encoder_that_is_incomplete_or_mixed_up_is_refused(tiny_encoder, tiny_folder, tmp_path):
    with pytest.raises(InputError, match=r"has no encoder\.json"):
        TextEncoder.load(tiny_folder)
    folder = tmp_path / "saved"
    tiny_encoder.save(folder)
    saved = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**saved, "vocabulary_hash": "other"}))
    with pytest.raises(InputError, match="files of different encoders"):
        TextEncoder.load(folder)
    (folder / "encoder.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        TextEncoder.load(folder)
    (folder / "encoder.json").write_text(json.dumps(saved))
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"is damaged.*has no model\.safetensors"):
        TextEncoder.load(folder)
