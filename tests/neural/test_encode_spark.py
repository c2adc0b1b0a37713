"""The stage encode leaves an encoder and its embeddings, however the rows lie, and goes on after a kill."""

import json
from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pyarrow.parquet as pq
import pytest
from neural_run import TEST, TRAIN, configuration, make_corpus, run_to

from xmcspark.errors import ConfigError
from xmcspark.matchers.model import TreeModel
from xmcspark.neural.checkpoint import Checkpoints
from xmcspark.neural.embed import embed_texts
from xmcspark.neural.encoder import TextEncoder
from xmcspark.tree.label_tree import LabelTree


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("neural") / "data"


@pytest.fixture(scope="module")
def corpus(data):
    return make_corpus(data)


@pytest.fixture(scope="module")
def encoded(spark, data, corpus, tiny_folder):
    """A run of XR-Transformer."""
    return run_to(spark, configuration(data, tiny_folder, "xr-transformer"), "encode")[0]


def weights_of(run):
    return TextEncoder.load(run.fs.local_path(run.folder("bundle/encoder"))).weights_hash()


def table_of(run, name="embeddings"):
    rows = pq.read_table(run.fs.local_path(run.table(name)))
    return rows.drop_columns("split").sort_by("id")


def test_embeddings_are_those_of_the_encoder_that_is_kept(encoded, corpus, tiny_encoder):
    found = table_of(encoded)
    assert found.num_rows == TRAIN + TEST
    encoder = TextEncoder.load(encoded.fs.local_path(encoded.folder("bundle/encoder")))
    texts = {name: text for name, text, _ in corpus}
    E = embed_texts(encoder, [texts[name] for name in found["id"].to_pylist()])
    np.testing.assert_allclose(np.array(found["embedding"].to_pylist()), E, atol=1e-5)
    assert encoded.record("encode").notes["width"] == encoder.width
    assert encoder.weights_hash() != tiny_encoder.weights_hash()


def test_all_other_columns_are_those_of_features(encoded):
    assert table_of(encoded).drop_columns("embedding").equals(table_of(encoded, "features"))


def test_how_fine_tuning_went_is_kept(encoded):
    history = json.loads(encoded.fs.read_text(f"{encoded.folder('encode')}/history.json"))
    assert [level["level"] for level in history["levels"]] == list(range(len(history["levels"])))
    assert all(level["steps"] > 0 and level["loss"] > 0 for level in history["levels"])


def test_a_killed_run_on_other_partitions_learns_the_same(
    spark, data, corpus, encoded, tiny_folder, monkeypatch
):
    from xmcspark.neural.level_task import LevelTask

    plain, calls = LevelTask.loss, []

    def dying(self, encoder, rows):
        calls.append(rows)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return plain(self, encoder, rows)

    asked = configuration(data, tiny_folder, "xr-transformer", "encoder.checkpoint_every=1", run="killed")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1024")
    monkeypatch.setattr(LevelTask, "loss", dying)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_to(spark, asked, "encode")
        monkeypatch.setattr(LevelTask, "loss", plain)
        seldom = replace(asked, encoder=replace(asked.encoder, checkpoint_every=1000))
        written = []
        monkeypatch.setattr(Checkpoints, "keep_only", lambda _, task, *steps: written.append(steps))
        run, outcomes = run_to(spark, seldom, "encode")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [outcome.skipped for outcome in outcomes] == [True, True, True, False]
    assert run.record("encode").notes["levels"][0]["resumed_at"] is not None
    assert weights_of(run) == weights_of(encoded)
    assert not any(written), "settings that change no result are those of now, not of the killed run"
    assert list(run.fs.walk(f"{run.uri}/scratch/encode")) == []  # what only a killed run needs is gone


def test_x_transformer_leaves_its_clusters_and_their_matcher(spark, data, corpus, tiny_folder):
    """With label texts as instances, too."""
    overrides = ("x_transformer.indexer=text-emb", "augment.gandalf=true")
    run, _ = run_to(spark, configuration(data, tiny_folder, "x-transformer", *overrides, run="x"), "encode")
    made = run.record("augment").notes["rows"]
    assert made > 0
    assert table_of(run).num_rows == TRAIN + TEST + made
    folder = run.fs.local_path(run.folder("encode"))
    tree = LabelTree.load(f"{folder}/head/tree")
    model = TreeModel.load(f"{folder}/head/matcher")
    assert model.tree.n_labels == tree.level_sizes[1] == 2
    features = run.record("vectorize").notes["features"]
    assert model.n_features == features + run.record("encode").notes["width"]


def test_a_method_without_an_encoder_has_no_embeddings(spark, data, corpus):
    run, _ = run_to(spark, configuration(data, "none", "xr-linear", run="linear"), "encode")
    assert table_of(run).num_rows == 0
    assert not run.fs.exists(run.folder("bundle/encoder"))
    assert run.record("encode").writes == ["embeddings"]


def test_mixtures_of_texts_cannot_be_embedded(tmp_path, tiny_folder):
    with pytest.raises(ConfigError, match=r"augment\.mixup"):
        configuration(tmp_path, tiny_folder, "xr-transformer", "augment.mixup=mixup")
