"""What an encoder lacks is said before Spark starts, from small files: weights are not read."""

import json
import shutil

import needs_torch  # noqa: F401
import pytest
from neural_run import configuration
from tiny_model import SPECIAL, WORDS, save_tiny_model

from jobs.submit import check_encoder
from xmcspark.errors import ConfigError
from xmcspark.neural.early_checks import check_model_files
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.settings import EncoderSettings


@pytest.fixture
def check(tmp_path, tiny_folder):
    def checked(*changes, model=tiny_folder, spark_options=()):
        config = configuration(tmp_path, model, "xr-transformer", *changes)
        check_encoder("refresh", config, list(spark_options))

    return checked


@pytest.fixture
def without_weights(tiny_folder, tmp_path):
    """A whole file of none: whoever loads it fails."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def test_a_model_that_fits_is_accepted_without_its_weights(check, without_weights):
    check(model=without_weights)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_weights_that_were_cut_short_are_found_by_their_header(check, tiny_folder, tmp_path, kept):
    shutil.copytree(tiny_folder, tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        ConfigError, match=r"model\.safetensors is cut short or no file of weights: copy the model"
    ):
        check(model=tmp_path / "model")


def test_texts_longer_than_the_model_reads_are_refused(check, without_weights):
    with pytest.raises(ConfigError, match=r"set encoder\.max_length to 64 or less"):
        check("encoder.max_length=65", model=without_weights)


def test_places_are_numbered_from_behind_the_padding_token_by_some(check, without_weights):
    path = without_weights / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "roberta", "pad_token_id": 1}))
    check("encoder.max_length=62", model=without_weights)
    with pytest.raises(ConfigError, match=r"set encoder\.max_length to 62 or less"):
        check("encoder.max_length=63", model=without_weights)


def test_the_tokenizer_of_another_model_is_refused_as_it_would_be_later(check, tmp_path, tiny_folder):
    other = save_tiny_model(tmp_path / "other", [*SPECIAL, *WORDS[:10]])
    shutil.copy(tiny_folder / "tokenizer.json", other / "tokenizer.json")
    with pytest.raises(ConfigError, match="they do not belong together") as early:
        check(model=other)
    with pytest.raises(ConfigError) as late:
        TextEncoder.open(str(other), pooling="mean", max_length=16, dropout=0.0)
    assert early.value.problems == late.value.problems


def test_what_the_driver_cannot_do_is_refused_where_it_fine_tunes(check):
    fp16 = ("encoder.device=cpu", "encoder.precision=fp16")
    with pytest.raises(ConfigError, match=r"set encoder\.precision to fp32"):
        check(*fp16)
    check(*fp16, "encoder.processes=2")  # on executors, which may be others
    check(*fp16, spark_options=("--deploy-mode", "cluster"))


def test_a_real_model_is_accepted(minilm_folder):
    check_model_files(EncoderSettings(enabled=True, model=str(minilm_folder), max_length=512))
