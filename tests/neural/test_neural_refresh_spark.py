"""Both methods from a corpus to a published model on Spark: what is predicted is what the library predicts, on any
partitions, and what is served is what was predicted."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from neural_run import TRAIN, configuration, make_corpus, run_to
from small_set import LABELS, WORDS

import xmcspark
from xmcspark.labels.augmented_training import Instances, label_instances, no_instances
from xmcspark.matchers.search import Searcher
from xmcspark.neural.text_model import TextModelSettings, train_text_model
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.sparse.rows import stacked_rows, take_rows
from xmcspark.text import Tfidf


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("neural-refresh") / "data"


@pytest.fixture(scope="module")
def corpus(data):
    return make_corpus(data)


def predictions_of(run):
    rows = pq.read_table(run.fs.local_path(run.table("predictions"))).sort_by("id")
    return {row["id"]: (row["labels"], row["scores"]) for row in rows.to_pylist()}


def hashes(names):
    return text_hashes(pa.array(names))


def local_model(config, corpus, folder):
    """Trained by the library alone, on the same rows in the same order."""
    names, texts, labels = zip(*corpus[:TRAIN], strict=True)
    Y = np.zeros((TRAIN, LABELS), np.float32)
    for at, own in enumerate(labels):
        Y[at, own] = 1
    observed = Instances(texts, as_csr(Y), hashes(names))
    made = no_instances(LABELS)
    if config.augment.gandalf:
        named, how = np.ones(LABELS, bool), (config.augment, config.seed, 1)
        made = label_instances(observed, WORDS[:LABELS], named, *how)
        made = replace(made, keys=hashes([f"label:{WORDS.index(text)}" for text in made.texts]))
    keys = np.concatenate([observed.keys, made.keys])
    order = np.argsort(keys)
    is_made = order >= TRAIN
    settings = TextModelSettings.of(config)
    every = [*observed.texts, *made.texts]
    weights = np.where(is_made[:, None], np.array(config.augment.weights, np.float32), np.float32(1))
    return train_text_model(
        [every[row] for row in order],
        take_rows(stacked_rows([observed.Y, made.Y]), order),
        settings,
        folder=folder,
        tfidf=Tfidf().fit([observed.texts[row] for row in np.argsort(observed.keys)]),
        label_texts=WORDS[:LABELS],
        row_keys=keys[order],
        row_weights=weights if is_made.any() else None,
        made=is_made if is_made.any() else None,
        silent=None if config.augment.in_pifa else is_made,
        seed=config.seed,
    )


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        ("xr-transformer", ()),
        ("xr-transformer", ("augment.gandalf=true",)),
        ("xr-transformer", ("augment.gandalf=true", "augment.in_pifa=false")),
        ("x-transformer", ()),
        (
            "x-transformer",
            (
                "x_transformer.ranker_input=tfidf",
                "train.negatives=tfn",
                "predict.path_weight=1",
                "predict.mode=routed",
            ),
        ),
    ],
)
def test_the_model_is_that_of_the_library(spark, data, corpus, tiny_folder, tmp_path, method, overrides):
    config = configuration(data, tiny_folder, method, *overrides, run=f"run-{method}-{len(overrides)}")
    run, _ = run_to(spark, config, "publish")
    local = local_model(config, corpus, tmp_path)
    found = Searcher.load(run.fs.local_path(run.folder("bundle/model/0")))
    packed = local.model.searcher
    np.testing.assert_array_equal(found.tree.labels, packed.tree.labels)
    for mine, other in zip(found.levels, packed.levels, strict=True):
        np.testing.assert_allclose(mine.dense, other.dense, atol=1e-3)
        np.testing.assert_allclose(mine.bias, other.bias, atol=1e-3)
    predicted = predictions_of(run)
    texts = {name: text for name, text, _ in corpus[TRAIN:]}
    expected = local.predict(list(texts.values()), beam=4, top_k=10)
    for at, name in enumerate(texts):
        np.testing.assert_allclose(sorted(predicted[name][1]), sorted(expected.scores[at]), atol=1e-3)
    bundle = xmcspark.load(run.fs.local_path(run.folder("bundle")))
    for name, text in list(texts.items())[:5]:
        answers = bundle.predict([text], k=3)[0]
        np.testing.assert_allclose([a.score for a in answers], predicted[name][1][:3], atol=1e-4)
        (path,) = bundle.explain(text, answers[0].label)
        assert path.score == pytest.approx(answers[0].score, abs=1e-5)


def test_matchers_in_the_table_name_the_coordinates_of_embeddings(spark, data, corpus, tiny_folder):
    config = configuration(data, tiny_folder, "xr-transformer", run="run-xr-transformer-0")
    run, outcomes = run_to(spark, config, "train")
    assert all(outcome.skipped for outcome in outcomes)
    sparse, width = run.record("vectorize").notes["features"], run.record("encode").notes["width"]
    rows = pq.read_table(run.fs.local_path(run.table("matchers")))
    for features in rows["features"].to_pylist():
        assert features[-width:] == list(range(sparse, sparse + width))
    model = Searcher.load(run.fs.local_path(run.folder("bundle/model/0")))
    assert (model.n_features, model.width) == (sparse + width, width)
