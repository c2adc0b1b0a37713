"""A model searched in parts gives the bits of the whole."""

import numpy as np
import pytest
from random_model import random_excluded, random_model, random_rows
from small_problem import even_tree

from xmcspark.errors import InputError
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.routed import Pairs, SplitModel, joined_pieces, score_pairs
from xmcspark.matchers.scoring import TRANSFORMS, Scoring
from xmcspark.sparse.csr import as_csr

SCORINGS = [
    Scoring(transform, combine, path_weight)
    for path_weight in (1.0, 0.3)
    for transform in TRANSFORMS
    for combine in ("product", "sum")
    if combine == "sum" or not (transform == "identity" or transform.startswith("log-"))
]


def routed(model: SplitModel, X, excluded, beam, top_k, shards):
    """Leaves dealt to shards, each scored alone, the pieces merged."""
    best = model.best_leaves(X, beam)
    there = best.labels >= 0
    rows, leaf = np.repeat(np.arange(X.shape[0]), there.sum(axis=1)), best.labels[there]
    pieces = []
    for shard in range(shards):
        own = leaf % shards == shard
        pairs = Pairs(rows[own], np.zeros(own.sum(), np.int32), leaf[own], best.scores[there][own])
        pieces.append(score_pairs([model], X, excluded, pairs, top_k)[0])
    everybody = [np.arange(X.shape[0])] * shards
    return model.final(joined_pieces(everybody, pieces, top_k), X.shape[0], top_k)


@pytest.mark.parametrize("scoring", SCORINGS, ids=lambda s: f"{s.transform}-{s.combine}-{s.path_weight}")
@pytest.mark.parametrize("shape", [(), (5,), (3, 11)])
def test_parts_give_the_bits_of_the_whole(tmp_path, scoring, shape):
    model = random_model(even_tree(57, shape), scoring=scoring)
    model.searcher.save(tmp_path)
    X, excluded = as_csr(random_rows()), as_csr(random_excluded(90, 57))
    for beam, top_k in ((1, 3), (4, 10), (20, 100)):
        expected = search_without(model.searcher, X, excluded, beam=beam, top_k=top_k)
        found = routed(SplitModel(tmp_path, scoring), X, excluded, beam, top_k, shards=3)
        assert np.array_equal(found.labels, expected.labels)
        assert np.array_equal(found.scores, expected.scores)


def test_labels_that_tie_only_after_their_paths_are_added_rank_by_id(tmp_path):
    # Far down, where float32 has no digits left for what tells two labels apart.
    model = random_model(even_tree(57, (2,)), scoring=Scoring("identity", "sum"))
    model.matchers[0].bias[:] = 3e7
    rng = np.random.default_rng(0)
    model.matchers[1].bias[:] += rng.random(57).astype(np.float32)
    model.searcher.save(tmp_path)
    X, nothing = as_csr(random_rows()), as_csr(np.zeros((90, 57)))
    expected = model.searcher.predict(X, beam=3, top_k=5)
    assert (np.diff(expected.scores, axis=1) == 0).any()
    found = routed(SplitModel(tmp_path, model.scoring), X, nothing, 3, 5, shards=2)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def test_a_leaf_that_points_outside_its_file_is_refused(tmp_path):
    model = random_model()
    model.searcher.save(tmp_path)
    pointers = np.load(tmp_path / "2.slot_ptr.npy")
    pointers[-1] += 1000
    np.save(tmp_path / "2.slot_ptr.npy", pointers)
    X = as_csr(random_rows())
    split = SplitModel(tmp_path, model.scoring)
    with pytest.raises(InputError, match="leaf 10 of the packed model is damaged"):
        split.leaf_labels(10, X, np.zeros(90, np.float32), as_csr(np.zeros((90, 57))), 3)
