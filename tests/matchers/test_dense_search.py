"""Search with rows that have a dense block, against a plain walk down the tree with all columns in numpy."""

import json
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from dense_problem import dense_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problem import even_tree
from test_search import walk

from xmcspark.errors import InputError
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.search import PackedLevel, Searcher, search
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import Csr, as_csr, with_dense
from xmcspark.sparse.rows import take_rows

WIDTH = 19


def random_dense_model(sizes: tuple[int, ...], labels: int, width: int, seed: int) -> TreeModel:
    """Random matchers with a block, for search and files."""
    rng = np.random.default_rng(seed)
    tree = even_tree(labels, sizes, seed)
    matchers = []
    for ptr in tree.child_ptr:
        children = int(ptr[-1])
        sparse = sp.random(children, 30, 0.3, format="csr", random_state=rng, dtype=np.float32)
        block = rng.normal(size=(children, width)).astype(np.float32)
        matchers.append(Matchers(with_dense(sparse, block), rng.normal(size=children).astype(np.float32)))
    return TreeModel(tree, tuple(matchers), 30 + width, Scoring("sigmoid"))


@pytest.fixture(scope="module")
def model() -> TreeModel:
    X, Y = dense_problem(rows=300, labels=60, width=WIDTH)
    return train_matchers(X, Y, even_tree(60, (4, 12)), threshold=0.01)


@pytest.fixture(scope="module")
def queries() -> Csr:
    return dense_problem(rows=40, labels=60, width=WIDTH, seed=7)[0]


def assert_walked(model: TreeModel, X: Csr, beam: int, top_k: int) -> int:
    """That rows get the labels of a plain walk; how many were clear enough to tell."""
    found = model.predict(X, beam=beam, top_k=top_k)
    clear = 0
    for row, x in enumerate(X.to_scipy().toarray().astype(np.float64)):
        walked = walk(model, x, beam, top_k)
        if walked is None:
            continue
        clear += 1
        labels, scores = walked
        there = found.labels[row] >= 0
        np.testing.assert_allclose(found.scores[row][there], scores, rtol=2e-4, atol=1e-5)
        for mine, reference, a, b in zip(found.labels[row], labels, found.scores[row], scores, strict=False):
            assert mine == reference or abs(a - b) < 1e-5 + 2e-4 * abs(b)
    return clear


@pytest.mark.parametrize(("beam", "top_k"), [(1, 1), (3, 5), (50, 60)])
def test_the_best_labels_are_those_of_a_plain_walk(model, queries, beam, top_k):
    assert assert_walked(model, queries, beam, top_k) > 5


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.lists(st.integers(1, 9), max_size=2),
    st.integers(1, 70),
    st.integers(1, 70),
)
def test_any_number_of_children_columns_and_queries_is_searched(seed, labels, sizes, width, rows):
    sizes = tuple(sorted(size for size in sizes if size < labels))
    model = random_dense_model(sizes, labels, width, seed)
    rng = np.random.default_rng(seed)
    sparse = sp.random(rows, 30, 0.2, format="csr", random_state=rng, dtype=np.float32)
    X = with_dense(sparse, rng.normal(size=(rows, width)).astype(np.float32))
    assert_walked(model, X, 100, labels)


def test_one_query_and_many_have_the_same_answer_bit_for_bit(model, queries):
    many = model.predict(queries, beam=3, top_k=7)
    for row in range(queries.shape[0]):
        at = slice(queries.indptr[row], queries.indptr[row + 1])
        one = model.searcher.predict_one(
            queries.indices[at], queries.data[at], queries.dense[row], beam=3, top_k=7
        )
        np.testing.assert_array_equal(many.labels[row], one.labels[0])
        np.testing.assert_array_equal(many.scores[row], one.scores[0])


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.permutations(range(40)))
def test_neither_threads_nor_order_of_queries_matter(model, queries, threads, order):
    straight = model.predict(queries)
    shuffled = model.predict(take_rows(queries, np.array(order)), threads=threads)
    np.testing.assert_array_equal(straight.labels[order], shuffled.labels)
    np.testing.assert_array_equal(straight.scores[order], shuffled.scores)


def test_candidates_are_scored_as_an_unlimited_search_would(model, queries):
    everything = model.predict(queries, beam=60, top_k=60).to_csr(60).to_scipy()
    wanted = sp.random(queries.shape[0], 60, 0.2, format="csr", random_state=1)
    scores = model.searcher.score(queries, wanted, threads=2).to_scipy()
    np.testing.assert_array_equal(scores.toarray(), everything.multiply(wanted != 0).toarray())
    best = search(model, queries, candidates=wanted, top_k=60)
    assert [sorted(row[row >= 0]) for row in best.labels] == [sorted(row.indices) for row in wanted]


def test_excluded_labels_are_left_out(model, queries):
    plain = model.predict(queries, beam=60, top_k=60)
    excluded = as_csr(sp.random(queries.shape[0], 60, 0.3, format="csr", random_state=1, dtype=np.float32))
    found = search_without(model.searcher, queries, excluded, beam=60, top_k=5)
    for row in range(queries.shape[0]):
        never = excluded.indices[excluded.indptr[row] : excluded.indptr[row + 1]]
        expected = [label for label in plain.labels[row] if label not in never][:5]
        assert found.labels[row].tolist() == expected


def test_saved_and_opened_again_it_gives_the_same_answers(model, queries, tmp_path):
    model.save(tmp_path / "model")
    model.searcher.save(tmp_path / "packed")
    expected = model.predict(queries)
    opened = [TreeModel.load(tmp_path / "model"), Searcher.load(tmp_path / "packed")]
    for again in opened:
        found = again.predict(queries)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert [again.width for again in opened] == [WIDTH, WIDTH]
    np.testing.assert_array_equal(opened[0].matchers[1].weights.dense, model.matchers[1].weights.dense)


def test_a_release_that_knows_no_block_refuses_a_model_with_one_and_reads_one_without(model, tmp_path):
    model.searcher.save(tmp_path / "block")
    plain = TreeModel(
        model.tree,
        tuple(Matchers(m.weights.sparse, m.bias) for m in model.matchers),
        model.n_features - WIDTH,
    )
    plain.searcher.save(tmp_path / "plain")
    versions = {
        name: json.loads((tmp_path / name / "header.json").read_text())["version"]
        for name in ("block", "plain")
    }
    assert versions == {"block": 2, "plain": 1}
    assert Searcher.load(tmp_path / "plain").width == 0


def test_a_scrambled_model_never_crashes_the_process(model, queries, tmp_path):
    model.searcher.save(tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(tmp_path.glob("*.npy")):
        whole = path.read_bytes()
        for _ in range(10):
            noise = bytearray(whole)
            for place in rng.integers(128, len(whole), 8) if len(whole) > 128 else ():
                noise[place] = rng.integers(256)
            path.write_bytes(noise)
            with suppress(ValueError):  # InputError, or what the kernel says of a damaged model
                assert Searcher.load(tmp_path).predict(queries).labels.shape == (queries.shape[0], 10)
        path.write_bytes(whole)
    np.testing.assert_array_equal(
        Searcher.load(tmp_path).predict(queries).labels, model.predict(queries).labels
    )


def test_a_block_of_another_size_is_refused_when_a_model_is_opened(model, tmp_path):
    model.searcher.save(tmp_path)
    header = json.loads((tmp_path / "header.json").read_text())
    for width, message in ((WIDTH - 1, "do not fit together"), (-1, "header"), (10**6, "header")):
        (tmp_path / "header.json").write_text(json.dumps({**header, "width": width}))
        with pytest.raises(InputError, match=message):
            Searcher.load(tmp_path)


def test_rows_without_the_models_block_are_refused_with_what_to_do(model, queries):
    for rows in (queries.expanded(), queries.to_scipy()):
        with pytest.raises(
            InputError, match=r"the model has a dense block of 19 columns, but X has none: give with"
        ):
            model.predict(rows)
    other = with_dense(queries.expanded().to_scipy()[:, :-5], np.ones((40, 5), np.float32))
    with pytest.raises(InputError, match=r"but X has one of 5: give with_dense"):
        model.predict(other)
    with pytest.raises(InputError, match=r"dense values of shape \(0,\): this model needs \(19,\)"):
        model.searcher.predict_one(np.array([3]), np.ones(1))
    with pytest.raises(InputError, match="finite"):
        model.searcher.predict_one(np.array([3]), np.ones(1), np.full(WIDTH, np.nan))
    with pytest.raises(
        InputError, match="increasing features below 40"
    ):  # the block's columns are no sparse features
        model.searcher.predict_one(np.array([40]), np.ones(1), np.ones(WIDTH))


def test_rows_with_a_block_are_refused_by_a_model_without(queries):
    X, Y = dense_problem()
    plain = train_matchers(X.expanded(), Y, even_tree(21))
    with pytest.raises(
        InputError, match=r"X has a dense block of 21 columns, but the model has none: give X.sparse"
    ):
        plain.predict(X)
    with pytest.raises(InputError, match=r"of shape \(21,\): this model needs \(0,\), none at all"):
        plain.searcher.predict_one(np.array([3]), np.ones(1), np.ones(21))


def test_levels_that_do_not_agree_on_the_block_are_refused(model):
    first, second, third = model.matchers
    mixed = (Matchers(first.weights.expanded(), first.bias), second, third)
    with pytest.raises(InputError, match="dense block"):
        TreeModel(model.tree, mixed, model.n_features)


def test_a_packed_block_holds_every_weight_once():
    weights = with_dense(np.zeros((37, 2), np.float32), np.arange(37 * 5, dtype=np.float32).reshape(37, 5))
    packed = PackedLevel.of(weights, np.zeros(37, np.float32), np.array([0, 20, 37]))
    first = packed.dense[: 16 * 5].reshape(5, 16)  # [column][child]
    np.testing.assert_array_equal(first, weights.dense[:16].T)
    rest = packed.dense[16 * 5 : 20 * 5].reshape(5, 4)
    np.testing.assert_array_equal(rest, weights.dense[16:20].T)
    np.testing.assert_array_equal(np.sort(packed.dense), np.arange(37 * 5))
