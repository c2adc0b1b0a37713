"""Instances that are held out are neither trained on nor in the trees, clusters and graphs that training goes by; made
ones are never held out, whatever they weigh."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, small_set

from xmcspark.neural.held_out import learned_targets
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.training_set import TrainingSet
from xmcspark.neural.x_transformer import XFineTuning
from xmcspark.neural.xr_transformer import XrFineTuning, preliminary_tree
from xmcspark.sparse.csr import as_csr

ASKED = EncoderSettings(enabled=True, validation=0.3, batch_size=16)
TREE = XrTransformerSettings(enabled=True, branching=4, max_leaf=4, fewest_nodes=1, glas=0.1)


def without_held_out_words(data, held_out):
    """The same instances, but that those held out have other texts and labels."""
    X, Y = data.X.to_scipy().toarray(), data.Y.to_scipy().toarray()
    X[held_out], Y[held_out] = X[held_out][:, ::-1], Y[held_out][:, ::-1]
    return TrainingSet(as_csr(X), as_csr(Y), data.tokens, data.row_keys)


def test_made_instances_are_trained_on_whatever_they_weigh(tmp_path, tiny_encoder):
    made = np.arange(120) >= 60
    for weights in (None, np.ones((120, 2), np.float32), np.full((120, 2), 0.5, np.float32)):
        small_set(tmp_path, tiny_encoder, row_weights=weights, made=made)
        held_out = TrainingSet.load(tmp_path).held_out(0.5, 0)
        assert not held_out[60:].any()
        assert 15 < held_out[:60].sum() < 45


def test_labels_are_described_by_silent_rows_only_if_there_are_no_others(tmp_path, tiny_encoder):
    Y = np.zeros((120, LABELS), np.float32)
    Y[[0, 1, 2], [0, 0, 1]] = 1  # label 0: heard and held out; label 1: held out
    Y[3, 2] = 1  # label 2: silent
    held_out, silent = np.isin(np.arange(120), [1, 2]), np.arange(120) == 3
    data = replace(small_set(tmp_path, tiny_encoder), Y=as_csr(Y), silent=silent)
    np.testing.assert_array_equal(data.describing(held_out).to_scipy().nonzero(), [[0, 2], [0, 1]])
    np.testing.assert_array_equal(data.describing().to_scipy().nonzero(), [[0, 1, 2], [0, 0, 1]])
    assert replace(data, silent=np.ones(120, bool)).describing() is data.Y


def test_trees_and_clusters_know_nothing_of_silent_instances(tmp_path, tiny_encoder):
    data, silent = small_set(tmp_path / "set", tiny_encoder), np.arange(120) < 40
    other = data.X.to_scipy().toarray()
    other[silent] = other[silent][:, ::-1]
    other = as_csr(other)
    for unheard in (silent, None):
        trees = [
            preliminary_tree(replace(data, X=X, silent=unheard), TREE, seed=0, threads=1).labels
            for X in (data.X, other)
        ]
        assert np.array_equal(*trees) == (unheard is not None)


def test_targets_to_learn_from_are_those_of_other_rows():
    Y = as_csr(np.array([[1, 0, 1], [0.5, 1, 0], [0, 0, 1]], np.float32))
    held_out = np.array([False, True, False])
    np.testing.assert_array_equal(learned_targets(Y, held_out).to_scipy().toarray()[1], [0, 0, 0])
    kept = learned_targets(Y, held_out, every_label=True).to_scipy().toarray()
    np.testing.assert_array_equal(kept, [[1, 0, 1], [0, 1, 0], [0, 0, 1]])
    assert learned_targets(Y, np.zeros(3, bool)) is Y


def test_the_preliminary_tree_and_its_graph_know_nothing_of_instances_held_out(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    held_out = data.held_out(ASKED.validation, 0)
    found = []
    for some in (data, without_held_out_words(data, held_out)):
        tree = preliminary_tree(some, TREE, seed=0, threads=1, held_out=held_out)
        tuning = XrFineTuning(some, tree, ASKED, TREE, seed=0, folder=tmp_path / "work", identity={})
        graph = tuning._cooccurrence(tuning.levels[-1])
        found.append((tree.labels, *tree.child_ptr, graph.counts, graph.own, graph.neighbours))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("indexer", ["pifa-tfidf", "pifa-neural"])
def test_clusters_know_nothing_of_instances_held_out(tmp_path, tiny_encoder, indexer):
    data = small_set(tmp_path / "set", tiny_encoder)
    held_out = data.held_out(ASKED.validation, 0)
    found = []
    for some in (data, without_held_out_words(data, held_out)):
        asked = XTransformerSettings(enabled=True, clusters=4, indexer=indexer)
        how = {"labels": None, "seed": 0, "folder": tmp_path / str(len(found)), "identity": {}}
        tuning = XFineTuning(some, ASKED, asked, **how)
        found.append(tuning._clusters(tmp_path / str(len(found)), indexer, tiny_encoder))
    np.testing.assert_array_equal(found[0].labels, found[1].labels)
    assert found[0].n_labels == LABELS
