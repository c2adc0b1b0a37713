"""What makes the stage encode run again: settings that change the model, and no others."""

from types import SimpleNamespace

import pytest
from neural_run import configuration

from xmcspark.neural.encode_spark import STAGE
from xmcspark.store.stage import stage_key

RUN = SimpleNamespace(input_keys=lambda names: dict.fromkeys(names, "k"))


@pytest.fixture
def key_of(tmp_path):
    def key(method, *changes):
        config = configuration(tmp_path, "some/model", method, "encoder.batch_size=16", *changes)
        return stage_key(STAGE, SimpleNamespace(config=config, run=RUN, base=None))

    return key


@pytest.mark.parametrize("method", ["xr-transformer", "x-transformer"])
def test_how_a_step_is_cut_makes_no_other_model_but_its_size_does(key_of, method):
    before = key_of(method)
    assert key_of(method, "encoder.batch_size=8", "encoder.accumulate=2") == before
    assert key_of(method, "encoder.batch_size=8", "encoder.processes=2") == before
    assert key_of(method, "encoder.processes=2") != before
    assert key_of(method, "encoder.accumulate=2") != before


def test_what_the_matchers_of_clusters_start_from_makes_another_model(key_of):
    before = key_of("x-transformer")
    assert key_of("x-transformer", "x_transformer.bootstrap=false") != before
    assert key_of("x-transformer", "train.threshold=0.03") != before, "solved with the settings of train"
    assert key_of("x-transformer", "x_transformer.ranker_input=tfidf") == before


@pytest.mark.parametrize("method", ["xr-transformer", "x-transformer"])
def test_what_rankers_learn_from_makes_no_other_encoder(key_of, method):
    plain = ("train.negatives=tfn", "train.man_beam=5", "train.cost_sensitive=true", "train.alpha=0.5")
    assert key_of(method, *plain, "predict.path_weight=1", "predict.beam=10") == key_of(method)


def test_unidec_has_a_batch_size_of_its_own(key_of):
    before = key_of("unidec")
    assert key_of("unidec", "encoder.batch_size=8", "encoder.processes=2") == before
    assert key_of("unidec", "unidec.batch_size=8") != before


@pytest.mark.parametrize("method", ["xr-transformer", "x-transformer", "unidec"])
def test_where_and_how_torch_works_makes_no_other_model(key_of, method):
    layout = (
        *("encoder.device=cpu", "encoder.embed_batch=8"),
        *("encoder.checkpoint_every=5", "encoder.checkpoint_minutes=1"),
    )
    assert key_of(method, *layout, "unidec.recompute=true", "unidec.texts_at_once=4") == key_of(method)
