"""Clusters come from any of three representations, and the matcher that finds them becomes the tree's first level."""

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, small_set, texts_and_targets

from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.model import TreeModel
from xmcspark.neural.embed import embed
from xmcspark.neural.settings import EncoderSettings, XTransformerSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.x_transformer import XFineTuning, cluster_count

QUICK = {
    "batch_size": 16,
    "learning_rate": 1e-3,
    "head_learning_rate": 1e-2,
    "max_length": 16,
    "dropout": 0.0,
}


def fine_tuning(data, folder, labels=None, epochs: float = 2.0, **changes) -> XFineTuning:
    settings = XTransformerSettings(enabled=True, **{"clusters": 4, **changes})
    asked = EncoderSettings(enabled=True, epochs=epochs, **QUICK)
    return XFineTuning(data, asked, settings, labels=labels, seed=0, folder=folder, identity={"of": "test"})


@pytest.mark.parametrize("indexer", ["pifa-tfidf", "pifa-neural", "text-emb"])
def test_labels_are_clustered_by_what_was_asked_for(tmp_path, tiny_encoder, indexer):
    data = small_set(tmp_path / "set", tiny_encoder)
    labels = TokenStore.write(tmp_path / "labels", tiny_encoder, [texts_and_targets(LABELS)[0]])
    _, head, _ = fine_tuning(data, tmp_path / "work", labels, indexer=indexer).run(tiny_encoder)
    assert head.tree.level_sizes == (1, 4, LABELS)
    sizes = np.diff(head.tree.child_ptr[1])
    assert sizes.max() - sizes.min() <= 1


def test_the_matcher_is_the_first_level_of_a_tree_over_both_kinds_of_features(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    encoder, head, _ = fine_tuning(data, tmp_path / "work", epochs=20.0).run(tiny_encoder)
    E = embed(encoder, data.tokens)
    X = data.with_embeddings(E)
    model = head.model(X.shape[1]).with_scoring("sigmoid")
    W, bias = head.matchers.weights.dense, head.matchers.bias
    found = model.predict(X, beam=4, top_k=1)
    margins = E @ W.T + bias
    np.testing.assert_array_equal(found.labels[:, 0], margins.argmax(axis=1))
    model.save(tmp_path / "matcher")
    again = TreeModel.load(tmp_path / "matcher")
    np.testing.assert_array_equal(again.matchers[0].weights.dense, W)


def test_clusters_are_made_again_from_what_was_learned(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    tuning = fine_tuning(data, tmp_path / "work", recluster=True)
    _, head, reports = tuning.run(tiny_encoder)
    assert len(reports) == 2
    assert head.tree.n_labels == LABELS


def test_clusters_of_other_work_are_refused(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    fine_tuning(data, tmp_path / "work").run(tiny_encoder)
    other = fine_tuning(data, tmp_path / "work")
    other.identity = {"of": "another"}
    with pytest.raises(InputError, match="was begun with other settings or instances"):
        other.run(tiny_encoder)


@pytest.mark.parametrize(
    ("labels", "clusters"), [(3956, 64), (30_938, 512), (13_330, 256), (501_070, 8192), (3, 2)]
)
def test_the_number_of_clusters_is_that_of_the_paper(labels, clusters):
    """Paper 3, table 2."""
    assert cluster_count(labels) == clusters


def test_more_clusters_than_labels_are_refused(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    with pytest.raises(InputError, match="clusters is 64 with 24 labels"):
        fine_tuning(data, tmp_path / "work", clusters=64).run(tiny_encoder)
    with pytest.raises(ConfigError, match="use a power of 2"):
        XTransformerSettings(clusters=48)


def test_label_texts_are_needed_to_cluster_by_them(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    with pytest.raises(InputError, match="labels have no texts"):
        fine_tuning(data, tmp_path / "work", indexer="text-emb")
