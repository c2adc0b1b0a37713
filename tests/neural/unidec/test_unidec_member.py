"""UniDEC as a member: excluded labels are left out and replaced by the next best, further labels join the search, and
what a label's score is made of can be told."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, WORDS
from unidec_set import SMALL, first_rows, small_heads, unidec_set

from xmcspark.errors import InputError
from xmcspark.neural.embed import embed
from xmcspark.neural.training_set import embeddings_alone
from xmcspark.neural.unidec.member import NearestMember
from xmcspark.neural.unidec.nearest import ExactLabels, JoinedLabels
from xmcspark.neural.unidec.search import LabelSearch
from xmcspark.neural.unidec.vectors import LabelSource, SearchSpace
from xmcspark.sparse.csr import Csr, as_csr


@pytest.fixture
def queries(tmp_path, tiny_encoder):
    return embed(tiny_encoder, unidec_set(tmp_path / "data", tiny_encoder, rows=20).tokens)


@pytest.fixture(params=["exact", "approximate"])
def member(request, tmp_path, tiny_encoder, queries):
    if request.param == "approximate":
        pytest.importorskip("faiss")
    data = unidec_set(tmp_path / "data", tiny_encoder, rows=20)
    source = LabelSource(tiny_encoder, SearchSpace(small_heads()), data.label_tokens, first_rows())
    settings = replace(SMALL, search=request.param, recall=1.0)
    LabelSearch.write(
        tmp_path / "search", source, np.arange(LABELS), settings, sample=queries, identity="one"
    )
    return NearestMember.load(tmp_path / "search", identity="one")


@pytest.mark.filterwarnings("error::UserWarning")
def test_excluded_labels_are_replaced_by_the_next_best(member, queries):
    queries.flags.writeable = False  # as rows come from tables
    X = embeddings_alone(queries)
    every = member.predict(X, None, top_k=LABELS)
    rows = np.zeros((len(queries), LABELS), np.float32)
    for row in range(1, len(queries)):  # none of the first, more and more of the others, the best ones
        rows[row, every.labels[row, :row]] = 1
    found = member.predict(X, as_csr(rows), top_k=5)
    for row in range(len(queries)):
        rest = [label for label in every.labels[row] if not rows[row, label]][:5]
        assert found.labels[row, : len(rest)].tolist() == rest
        assert (found.labels[row, len(rest) :] == -1).all()
    one = member.predict_one((np.zeros(0), np.zeros(0), queries[3]), top_k=5)
    np.testing.assert_array_equal(one.labels[0], every.labels[3, :5])


def test_what_each_head_says_adds_up_to_the_score(member, queries):
    found = member.predict(embeddings_alone(queries), None, top_k=LABELS)
    for row, place in ((0, 0), (7, 3), (11, LABELS - 1)):
        parts = member.search.similarities(queries[row], int(found.labels[row, place]))
        assert list(parts) == ["dual head", "classifier head"]
        assert sum(parts.values()) == pytest.approx(found.scores[row, place], abs=1e-5)
    with pytest.raises(InputError, match=f"label {LABELS} is not in the model"):
        member.search.similarities(queries[0], LABELS)


def test_further_labels_join_the_ranking(member, queries):
    more = member.with_labels(np.array([LABELS, LABELS + 1]), queries[:2])
    found = more.predict(embeddings_alone(queries), None, top_k=LABELS + 2)
    assert (np.sort(found.labels, axis=1) == np.arange(LABELS + 2)).all()
    assert found.labels[:2, 0].tolist() == [LABELS, LABELS + 1]  # each is its own text
    np.testing.assert_allclose(found.scores[:2, 0], 2, atol=1e-5)
    old = member.predict(embeddings_alone(queries), None, top_k=LABELS)
    for row in range(len(queries)):
        kept = found.labels[row] < LABELS
        assert found.labels[row, kept].tolist() == old.labels[row].tolist()
    assert sum(more.search.similarities(queries[1], LABELS + 1).values()) == pytest.approx(2, abs=1e-5)


def test_a_classifier_alone_knows_no_further_labels(queries, tmp_path):
    space = SearchSpace(small_heads(dual=False))
    index = ExactLabels(first_rows(), np.arange(LABELS))
    with pytest.raises(InputError, match="takes the dual head"):
        LabelSearch(space, index, "").with_labels(np.array([LABELS]), queries[:1])


def test_what_does_not_fit_is_refused(member, queries):
    nothing = np.zeros(21, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    with pytest.raises(InputError, match="the rows given have none"):
        member.predict(Csr(*nothing, (20, 7)), None, top_k=3)
    with pytest.raises(InputError, match="given without one"):
        member.predict_one((np.zeros(0), np.zeros(0), None), top_k=3)
    with pytest.raises(InputError, match="at least 1 label"):
        member.predict(embeddings_alone(queries), None, top_k=0)
    with pytest.raises(InputError, match=r"32 values, and the heads read \[64\]"):
        member.predict(embeddings_alone(queries[:, :32]), None, top_k=3)
    with pytest.raises(InputError, match="cannot be searched together"):
        JoinedLabels((member.search.index, ExactLabels(np.ones((1, 3), np.float32))))


def test_a_training_set_in_files_is_the_same(tmp_path, tiny_encoder):
    from xmcspark.neural.tokens import TokenStore
    from xmcspark.neural.unidec.data import UnidecData, instance_tokens

    made = np.arange(20) % 3 == 0
    more = {
        "made": made,
        "row_weights": np.where(made, 2, 1).astype(np.float32),
        "row_keys": np.arange(20) * 7,
    }
    plain = unidec_set(tmp_path / "plain", tiny_encoder, rows=20)
    texts = [" ".join(WORDS[: 1 + row % 5]) for row in range(20)]
    tokens = TokenStore.write(instance_tokens(tmp_path / "set"), tiny_encoder, [texts])
    data = UnidecData(plain.Y, tokens, plain.label_tokens, **more)
    data.save(tmp_path / "set")
    found = UnidecData.load(tmp_path / "set", plain.label_tokens)
    np.testing.assert_array_equal(found.Y.to_scipy().toarray(), plain.Y.to_scipy().toarray())
    for name, array in more.items():
        np.testing.assert_array_equal(getattr(found, name), array)
    held_out = found.held_out(0.5, seed=3)
    assert 0 < held_out.sum() < 20
    assert not (held_out & made).any()
    np.testing.assert_array_equal(held_out, data.held_out(0.5, seed=3))
    assert not found.held_out(0.0, seed=3).any()
