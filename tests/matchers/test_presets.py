"""Each preset is the method it names, and learns."""

import numpy as np
import pytest

from xmcspark.corpus.synthetic import generate
from xmcspark.errors import ConfigError
from xmcspark.matchers.presets import PRESETS, Ensemble, preset, train_preset
from xmcspark.text.tfidf import Tfidf


@pytest.fixture(scope="module")
def corpus():
    made = generate(2000, 300, seed=1)
    tfidf = Tfidf()
    return tfidf.fit_transform(made.train.texts), made.train.Y, tfidf.transform(made.test.texts), made.test.Y


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_finds_labels_far_better_than_chance(corpus, name):
    X, Y, X_test, Y_test = corpus
    best = train_preset(name, X, Y).predict(X_test, top_k=1).labels[:, 0]
    hits = np.asarray(Y_test[np.arange(len(best)), best]).ravel() > 0
    popular = np.asarray(Y.sum(axis=0)).ravel().argmax()
    assert hits.mean() > 3 * (Y_test[:, [popular]].toarray() > 0).mean()
    assert hits.mean() > 0.3


def test_the_shapes_are_those_of_the_methods(corpus):
    X, Y, *_ = corpus
    parabel, bonsai, dismec = (train_preset(name, X, Y).members for name in ("parabel", "bonsai", "dismec"))
    assert len(parabel) == len(bonsai) == 3
    assert all(np.diff(ptr).max() == 2 for ptr in parabel[0].tree.child_ptr[:-1])
    assert bonsai[0].tree.depth <= 3
    sizes = np.diff(bonsai[0].tree.child_ptr[-1])
    assert sizes.max() > sizes.min() + 1  # unbalanced
    assert dismec[0].tree.depth == 1


def test_members_of_an_ensemble_differ(corpus):
    X, Y, *_ = corpus
    first, second, _ = train_preset("parabel", X, Y).members
    assert not np.array_equal(first.tree.labels, second.tree.labels)


def test_an_ensemble_is_saved_and_ranks_candidates(corpus, tmp_path):
    X, Y, X_test, Y_test = corpus
    ensemble = train_preset("parabel", X, Y)
    ensemble.save(tmp_path)
    again = Ensemble.load(tmp_path)
    np.testing.assert_array_equal(again.predict(X_test).scores, ensemble.predict(X_test).scores)
    among = again.search(X_test, candidates=Y_test, top_k=3).labels
    assert all(label < 0 or Y_test[row, label] for row in range(20) for label in among[row])


def test_more_answers_than_labels_are_cut_to_the_labels(corpus):
    X, Y, X_test, _ = corpus
    few = Y[:, :40]
    for name in PRESETS:
        assert train_preset(name, X, few).predict(X_test, top_k=100, beam=40).labels.shape[1] == 40


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(ConfigError, match="xr-linear, parabel, bonsai, dismec"):
        preset("xr-liner")
