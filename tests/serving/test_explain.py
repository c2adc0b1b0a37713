"""An explanation is the search's own sum, feature by feature."""

import numpy as np
import pytest
import scipy.sparse as sp
from small_bundle import write_bundle

from xmcspark import load
from xmcspark.errors import InputError
from xmcspark.labels.features import pifa
from xmcspark.matchers.train import train_matchers
from xmcspark.serving.explain import WeighedText, path_steps
from xmcspark.sparse.csr import with_dense
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.build import build_tree

TEXTS = 5


@pytest.fixture(scope="module")
def model(trained, tmp_path_factory):
    return load(write_bundle(trained, tmp_path_factory.mktemp("bundle"), members=2))


@pytest.fixture(scope="module")
def texts(trained):
    return trained[0].test.texts.to_pylist()[:TEXTS]


def test_the_terms_of_a_path_add_up_to_its_score_before_the_transform_to_the_bit(trained, model, texts):
    margins = [m.with_scoring("identity", "sum").searcher for m in trained[2]]
    for text in texts:
        for label in range(0, 80, 7):
            wanted = sp.csr_matrix(([np.float32(1)], ([0], [label])), shape=(1, 80))
            for path in model.explain(text, label):
                assert path.margin == margins[path.member].score(model.tfidf([text]), wanted).data[0]
                for step in path.steps:
                    assert step.margin == pytest.approx(
                        step.bias + sum(t.contribution for t in step.terms), abs=1e-5
                    )


def test_the_score_is_the_one_that_is_predicted(trained, tmp_path, texts):
    single = load(write_bundle(trained, tmp_path))
    for text, answers in zip(texts, single.predict(texts, k=3), strict=True):
        for answer in answers:
            (path,) = single.explain(text, answer.key)
            assert path.score == answer.score


def test_steps_go_from_the_root_to_the_label_by_the_numbers_of_the_tables(trained, model, texts):
    for path in model.explain(texts[0], 11):
        tree = trained[2][path.member].tree
        table = tree.table().to_pandas().set_index("node")
        assert len(path.steps) == tree.depth > 2
        assert path.steps[0].node == 0
        assert [s.is_label for s in path.steps] == [False] * (tree.depth - 1) + [True]
        assert path.steps[-1].child == 11
        for above, below in zip(path.steps, path.steps[1:], strict=False):
            assert above.child == below.node
            assert table.loc[below.node].parent == above.node


def test_terms_are_features_of_the_text_with_the_weights_of_the_matcher(trained, model, texts):
    row = model.tfidf([texts[0]])
    value_of = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
    path = model.explain(texts[0], 3)[0]
    step, tree = path.steps[-1], trained[2][0].tree
    weights = trained[2][0].matchers[-1].weights.to_scipy()[tree.position_of_label[3]].toarray()[0]
    both = [f for f in value_of if weights[f] != 0]
    assert [term.feature for term in step.terms] == both
    assert len(both) > 0
    assert [term.weight for term in step.terms] == [weights[f] for f in both]
    assert [term.value for term in step.terms] == [value_of[f] for f in both]
    assert [term.gram for term in step.terms] == [model.gram(f) for f in both]


def test_a_text_without_known_grams_is_explained_by_biases_alone(model):
    path = model.explain("", 3)[0]
    assert all(step.terms == [] and step.margin == step.bias for step in path.steps)


@pytest.mark.parametrize(
    ("label", "says"), [(80, "label 80 is not in the model"), ("k80", "no label has the key")]
)
def test_a_label_that_is_not_there_is_named(model, label, says):
    with pytest.raises(InputError, match=says):
        model.explain("red", label)


def test_an_embedding_is_one_term_and_the_margins_are_the_searchs_to_the_bit():
    rng = np.random.default_rng(0)
    X = with_dense(sp.random(60, 12, 0.3, "csr", np.float32, random_state=rng), rng.normal(size=(60, 9)))
    Y = sp.csr_matrix(np.eye(20, dtype=np.float32)[rng.integers(0, 20, 60)])
    tree = build_tree(pifa(X, Y), branching=2, max_leaf=10)
    searcher = train_matchers(X, Y, tree).with_scoring("identity", "sum").searcher
    for row in range(5):
        at = slice(X.indptr[row], X.indptr[row + 1])
        text = WeighedText(X.indices[at], X.data[at], [str(f) for f in X.indices[at]], X.dense[row])
        for label in range(20):
            steps = path_steps(searcher, text, label)
            total = np.float32(0)
            for step in steps:
                total += np.float32(step.margin)
                assert (step.terms[-1].gram, step.terms[-1].feature) == ("embedding", 12)
                contributions = sum(term.contribution for term in step.terms)
                assert step.margin == pytest.approx(step.bias + contributions, abs=1e-5)
            wanted = sp.csr_matrix(([np.float32(1)], ([0], [label])), shape=(1, 20))
            assert total == searcher.score(take_rows(X, np.array([row])), wanted).data[0]
    with pytest.raises(InputError, match="9 dense columns: give the embedding"):
        path_steps(searcher, text._replace(dense=None), 3)
