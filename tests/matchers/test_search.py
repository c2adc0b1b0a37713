"""Beam search against a plain walk down the tree with dense numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problem import even_tree, random_problem

from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.scoring import TRANSFORMS, Scoring
from xmcspark.matchers.search import Searcher, search
from xmcspark.matchers.train import train_matchers

FORMS = [(t, "sum") for t in TRANSFORMS] + [
    (t, "product") for t in TRANSFORMS if t != "identity" and "log" not in t
]


def transformed(z, transform):
    name = transform.removeprefix("log-")
    if name == "identity":
        return z
    log = -np.logaddexp(0, -z) if name == "sigmoid" else -(np.maximum(0, 1 - z) ** int(name[1]))
    return log if transform.startswith("log-") else np.exp(log)


def walk(model, x, beam, top_k):
    """(labels, scores) by definition: all children of the kept nodes, best `beam` of them, and so on down."""
    scoring, kept = model.scoring, {0: 1.0 if model.scoring.combine == "product" else 0.0}
    for t, ptr in enumerate(model.tree.child_ptr):
        if t == model.tree.depth - 1:
            counts = pow if scoring.combine == "product" else lambda score, weight: weight * score
            kept = {node: counts(above, scoring.path_weight) for node, above in kept.items()}
        W, bias = model.matchers[t].weights.to_scipy().toarray().astype(np.float64), model.matchers[t].bias
        scores = {}
        for node, above in kept.items():
            for child in range(ptr[node], ptr[node + 1]):
                here = transformed(W[child] @ x + bias[child], scoring.transform)
                scores[child] = above * here if scoring.combine == "product" else above + here
        last = t == model.tree.depth - 1
        number = (lambda c: model.tree.labels[c]) if last else (lambda c: c)
        ranked = sorted(scores, key=lambda c: (-scores[c], number(c)))
        width = top_k if last else beam
        if len(ranked) > width and scores[ranked[width - 1]] - scores[ranked[width]] < 1e-4:
            return None  # too close for float32 to tell who is cut
        best = ranked[:width]
        kept = {c: scores[c] for c in best}
    return [int(model.tree.labels[c]) for c in kept], list(kept.values())


@pytest.fixture(scope="module")
def model() -> TreeModel:
    X, Y = random_problem(rows=300, labels=60)
    return train_matchers(X, Y, even_tree(60, (4, 12)), threshold=0.01)


@pytest.fixture(scope="module")
def queries() -> sp.csr_matrix:
    found = random_problem(rows=40, labels=60, seed=7)[0]
    found.sort_indices()
    return found


@pytest.mark.parametrize("path_weight", [1.0, 0.25])
@pytest.mark.parametrize(("transform", "combine"), FORMS)
@pytest.mark.parametrize(("beam", "top_k"), [(1, 1), (3, 5), (50, 60)])
def test_the_best_labels_are_those_of_a_plain_walk(
    model, queries, transform, combine, path_weight, beam, top_k
):
    model = model.with_scoring(transform, combine, path_weight)
    found = model.predict(queries, beam=beam, top_k=top_k)
    walks = [walk(model, x.astype(np.float64), beam, top_k) for x in queries.toarray()]
    clear = [row for row, walked in enumerate(walks) if walked is not None]
    assert len(clear) > 5
    for row in clear:
        labels, scores = walks[row]
        there = found.labels[row] >= 0
        np.testing.assert_allclose(found.scores[row][there], scores, rtol=2e-4, atol=1e-5)
        # labels may differ only where float32 cannot tell their scores apart
        for mine, reference, a, b in zip(found.labels[row], labels, found.scores[row], scores, strict=False):
            assert mine == reference or abs(a - b) < 1e-5 + 2e-4 * abs(b)


def test_one_query_and_many_have_the_same_answer_bit_for_bit(model, queries):
    many = model.predict(queries, beam=3, top_k=7)
    for row in range(queries.shape[0]):
        one = model.searcher.predict_one(queries[row].indices, queries[row].data, beam=3, top_k=7)
        np.testing.assert_array_equal(many.labels[row], one.labels[0])
        np.testing.assert_array_equal(many.scores[row], one.scores[0])


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.randoms())
def test_neither_threads_nor_order_of_queries_matter(model, queries, threads, random):
    order = list(range(queries.shape[0]))
    random.shuffle(order)
    straight = model.predict(queries)
    shuffled = model.predict(queries[order], threads=threads)
    np.testing.assert_array_equal(straight.labels[order], shuffled.labels)
    np.testing.assert_array_equal(straight.scores[order], shuffled.scores)


@pytest.mark.parametrize("path_weight", [1.0, 0.1])
def test_candidates_are_scored_as_an_unlimited_search_would(model, queries, path_weight):
    model = model.with_scoring("l3-hinge", path_weight=path_weight)
    everything = model.predict(queries, beam=60, top_k=60).to_csr(60).to_scipy()
    wanted = sp.random(queries.shape[0], 60, 0.2, format="csr", random_state=1)
    scores = model.searcher.score(queries, wanted, threads=2).to_scipy()
    assert (scores != 0).nnz <= wanted.nnz
    np.testing.assert_array_equal(scores.indices, wanted.tocsr().sorted_indices().indices)
    np.testing.assert_allclose(scores.toarray(), everything.multiply(wanted != 0).toarray(), rtol=1e-6)


def test_search_among_candidates_ranks_those_and_no_others(model, queries):
    wanted = sp.random(queries.shape[0], 60, 0.1, format="csr", random_state=2)
    found = search(model, queries, candidates=wanted, top_k=4)
    scores = model.searcher.score(queries, wanted).to_scipy().toarray()
    for row in range(queries.shape[0]):
        allowed = wanted[row].indices
        best = sorted(allowed, key=lambda label: (-scores[row, label], label))[:4]
        assert found.labels[row][: len(best)].tolist() == best
        assert (found.labels[row][len(best) :] == -1).all()


def test_a_tree_of_one_node_ranks_all_labels():
    X, Y = random_problem(labels=30)
    found = train_matchers(X, Y, even_tree(30)).predict(X, top_k=30)
    assert all(sorted(row) == list(range(30)) for row in found.labels)


def test_top_k_above_the_number_of_labels_gives_all_labels(model, queries):
    assert model.predict(queries, beam=60, top_k=1000).labels.shape == (queries.shape[0], 60)


def test_a_narrow_beam_leaves_places_empty():
    X, Y = random_problem(labels=20)
    found = train_matchers(X, Y, even_tree(20, (10,))).predict(X, beam=1, top_k=5)
    assert (found.labels[:, :2] >= 0).all()
    assert (found.labels[:, 2:] == -1).all()
    assert np.isneginf(found.scores[:, 2:]).all()


def test_a_query_without_features_is_answered_from_the_biases(model):
    nothing = sp.csr_matrix((1, 40), dtype=np.float32)
    labels, _ = walk(model, np.zeros(40), 12, 60)
    assert list(model.predict(nothing, beam=12, top_k=60).labels[0]) == labels


def test_saved_and_opened_again_it_gives_the_same_answers(model, queries, tmp_path):
    model.save(tmp_path / "model")
    model.searcher.save(tmp_path / "packed")
    expected = model.predict(queries)
    for again in (TreeModel.load(tmp_path / "model"), Searcher.load(tmp_path / "packed")):
        found = again.predict(queries)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_a_damaged_model_is_refused_by_name(model, tmp_path):
    model.searcher.save(tmp_path)
    with pytest.raises(InputError, match="a tree model is expected"):
        TreeModel.load(tmp_path)
    bias = tmp_path / "1.bias.npy"
    bias.write_bytes(bias.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"1\.bias\.npy"):
        Searcher.load(tmp_path)
    bias.unlink()
    with pytest.raises(InputError, match=r"1\.bias\.npy is missing"):
        Searcher.load(tmp_path)


def test_a_scrambled_model_never_crashes_the_process(model, queries, tmp_path):
    model.searcher.save(tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(tmp_path.glob("*.npy")):
        whole = path.read_bytes()
        for _ in range(20):
            noise = bytearray(whole)
            for place in rng.integers(128, len(whole), 8) if len(whole) > 128 else ():
                noise[place] = rng.integers(256)
            path.write_bytes(noise)
            try:
                opened = Searcher.load(tmp_path)
                found = opened.predict(queries)
                assert found.labels.shape == (queries.shape[0], 10)
                if path.name != "tree.labels.npy":  # a label of noise would ask for gigabytes
                    opened.score(queries, sp.csr_matrix(np.ones((queries.shape[0], 60), np.float32)))
            except ValueError:  # InputError, or what the kernel says of a damaged model
                pass
        path.write_bytes(whole)
    np.testing.assert_array_equal(
        Searcher.load(tmp_path).predict(queries).labels, model.predict(queries).labels
    )


def test_stored_zeros_are_no_candidates(model, queries):
    wanted = sp.csr_matrix(np.ones((queries.shape[0], 60), np.float32))
    wanted.data[wanted.indices != 7] = 0
    found = search(model, queries, candidates=wanted, top_k=3)
    assert (found.labels[:, 0] == 7).all()
    assert (found.labels[:, 1:] == -1).all()


def test_a_tree_over_some_of_the_labels_answers_with_those_and_passes_over_other_candidates():
    X, Y = random_problem(labels=30)
    tree = even_tree(20, (4,))  # labels 0..19 of 30
    model = train_matchers(X, Y[:, :20], tree)
    everything = sp.csr_matrix(np.ones((X.shape[0], 30), np.float32))
    assert search(model, X, candidates=everything, top_k=30).labels.max() < 20
    with pytest.raises(InputError, match="not in the tree"):
        train_matchers(X, Y, tree)


@pytest.mark.parametrize("threads", [0, -3])
def test_threads_below_one_are_refused(model, queries, threads):
    with pytest.raises(InputError, match="at least 1"):
        search(model, queries, threads=threads)


def test_more_threads_than_the_system_gives_are_no_harm(model, queries):
    np.testing.assert_array_equal(model.predict(queries, threads=500).labels, model.predict(queries).labels)


@pytest.mark.parametrize(
    ("features", "values"),
    [([3, 99, 5], [1, 1, 1]), ([5, 3], [1, 1]), ([3], [np.nan]), ([3, 4], [1]), ([-1], [1])],
)
def test_one_query_that_makes_no_sense_is_refused(model, features, values):
    with pytest.raises(InputError, match="a query"):
        model.searcher.predict_one(np.array(features), np.array(values, float))


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"top_k": 0}])
def test_sizes_below_one_are_refused(model, queries, wrong):
    with pytest.raises(InputError, match="at least 1"):
        model.predict(queries, **wrong)


def test_queries_with_other_features_are_refused(model):
    with pytest.raises(InputError, match="41 columns"):
        model.predict(sp.csr_matrix((2, 41), dtype=np.float32))
    with pytest.raises(InputError, match="below 40"):
        model.searcher.predict_one(np.array([40], np.int32), np.ones(1, np.float32))


@pytest.mark.parametrize(
    ("transform", "combine"), [("l9-hinge", "product"), ("identity", "product"), ("sigmoid", "mean")]
)
def test_score_forms_that_make_no_sense_are_refused(transform, combine):
    with pytest.raises(ConfigError):
        Scoring(transform, combine)


@pytest.mark.parametrize("weight", [0, -1, 1.5])
def test_weights_of_a_path_that_make_no_sense_are_refused(weight):
    with pytest.raises(ConfigError, match="path_weight"):
        Scoring(path_weight=weight)


def test_the_less_a_path_counts_the_more_a_label_s_own_matcher_does(model, queries):
    own = model.with_scoring("l3-hinge", path_weight=1e-6).predict(queries, beam=60, top_k=60)
    everything = model.with_scoring("identity", "sum", 1e-6).predict(queries, beam=60, top_k=60)
    below = own.scores < 0.9  # above, margins beyond 1 are all alike
    assert below.mean() > 0.5
    np.testing.assert_array_equal(own.labels[below], everything.labels[below])
