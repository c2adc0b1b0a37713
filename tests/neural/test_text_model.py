"""From texts to ranked labels without Spark, by both methods."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, WORDS, texts_and_targets

from xmcspark.errors import InputError
from xmcspark.matchers.settings import TrainSettings
from xmcspark.neural.fine_tuning_job import FineTuningJob, run_job
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.text_model import TextModelSettings, train_text_model
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.params import TreeParams

QUICK = {
    "batch_size": 16,
    "learning_rate": 1e-3,
    "head_learning_rate": 1e-2,
    "max_length": 16,
    "dropout": 0.0,
}


def settings(folder, method: str, epochs: float = 2.0, train=None, **changes) -> TextModelSettings:
    xr, x = (
        XrTransformerSettings(enabled=True, branching=4, max_leaf=4, fewest_nodes=2),
        XTransformerSettings(),
    )
    if method == "x-transformer":
        xr, x = XrTransformerSettings(), XTransformerSettings(enabled=True, **{"clusters": 4, **changes})
    encoder = EncoderSettings(enabled=True, model=str(folder), epochs=epochs, **QUICK)
    return TextModelSettings(encoder, xr, x, TreeParams(branching=4, max_leaf=6), train or TrainSettings())


def precision(model, texts, Y) -> float:
    best = model.predict(texts, beam=4, top_k=1).labels[:, 0]
    return float((Y.to_scipy().toarray()[np.arange(len(texts)), best] > 0).mean())


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("xr-transformer", {}),
        ("x-transformer", {}),
        ("x-transformer", {"ranker_input": "tfidf"}),
        ("x-transformer", {"ranker_input": "neural"}),
        ("x-transformer", {"matching": "linear"}),
    ],
)
@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
def test_labels_of_texts_are_learned(tmp_path, tiny_folder, method, changes, negatives):
    texts, Y = texts_and_targets(150)
    asked = settings(tiny_folder, method, epochs=6.0, train=TrainSettings(negatives=negatives), **changes)
    model = train_text_model(texts, Y, asked, folder=tmp_path)
    assert precision(model, texts, Y) > (0.4 if changes.get("ranker_input") == "neural" else 0.7)


def test_rankers_use_only_what_they_were_told_to(tmp_path, tiny_folder):
    texts, Y = texts_and_targets(100)
    dense = {}
    for inputs in ("tfidf", "neural"):
        asked = settings(tiny_folder, "x-transformer", ranker_input=inputs)
        weights = train_text_model(texts, Y, asked, folder=tmp_path / inputs).model.matchers[1].weights
        dense[inputs] = bool(weights.dense.any())
        assert bool(weights.nnz) == (inputs == "tfidf")
    assert dense == {"tfidf": False, "neural": True}


def test_without_epochs_the_encoder_stays_as_it_is(tmp_path, tiny_folder, tiny_encoder):
    texts, Y = texts_and_targets(60)
    model = train_text_model(texts, Y, settings(tiny_folder, "xr-transformer", epochs=0.0), folder=tmp_path)
    assert model.encoder.weights_hash() == tiny_encoder.weights_hash()


def test_label_texts_with_soft_targets_are_learned_from(tmp_path, tiny_folder):
    """Gandalf's rows: more texts, targets below 1, weights of their own."""
    texts, Y = texts_and_targets(100)
    made = [WORDS[label] for label in range(LABELS)]
    soft = np.eye(LABELS, dtype=np.float32) + np.eye(LABELS, k=1, dtype=np.float32) * 0.4
    both = np.vstack([Y.to_scipy().toarray(), soft])
    weights = np.ones((len(both), 2), np.float32)
    weights[100:] = 2.0, 0.2
    asked = settings(tiny_folder, "xr-transformer")
    model = train_text_model([*texts, *made], both, asked, folder=tmp_path, row_weights=weights)
    assert precision(model, texts, Y) > 0.6


@pytest.mark.parametrize("method", ["xr-transformer", "x-transformer"])
def test_what_was_begun_is_gone_on_with_by_the_same_work_alone(tmp_path, tiny_folder, method):
    texts, Y = texts_and_targets(40)
    asked = settings(tiny_folder, method, epochs=1.0)
    train_text_model(texts, Y, asked, folder=tmp_path)
    slower = replace(asked, encoder=replace(asked.encoder, learning_rate=1e-5))
    shuffled = take_rows(Y, np.arange(len(texts))[::-1])
    for given in ((texts, Y, slower), (texts, shuffled, asked), ([*texts[1:], texts[0]], Y, asked)):
        with pytest.raises(InputError, match="was begun with other settings or instances"):
            train_text_model(*given, folder=tmp_path)
    smaller = replace(asked.encoder, batch_size=8, accumulate=2, embed_batch=8)
    train_text_model(texts, Y, replace(asked, encoder=smaller), folder=tmp_path)


def test_a_job_is_read_back_as_it_was_written(tmp_path):
    job = FineTuningJob(
        EncoderSettings(enabled=True, epochs=1.5),
        XrTransformerSettings(enabled=True, shape=(4, 16), shares=(0.5, 0.25, 0.25)),
        XTransformerSettings(),
        TrainSettings(threshold=0.05),
        seed=7,
        threads=2,
        identity="of a test",
    )
    job.save(tmp_path)
    assert FineTuningJob.load(tmp_path) == job


def test_a_folder_without_a_job_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is no folder of a fine-tuning job"):
        run_job(tmp_path)
