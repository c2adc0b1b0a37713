"""Inference: scores are sums of cosines, approximate search finds what exact search does, new labels are found by their
texts, and a folder of another run is refused."""

import json
import logging
from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, WORDS
from unidec_set import SMALL, first_rows, small_heads, unidec_set

from xmcspark.errors import InputError
from xmcspark.neural import progress
from xmcspark.neural.embed import embed, embed_texts
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec import vectors as vectors_module
from xmcspark.neural.unidec.model import UnidecModel
from xmcspark.neural.unidec.refresh import hard_negatives, opened_index
from xmcspark.neural.unidec.search import LabelSearch
from xmcspark.neural.unidec.vectors import LabelSource, LabelVectors, SearchSpace, unit
from xmcspark.sparse.csr import as_csr


@pytest.fixture
def source(tmp_path, tiny_encoder):
    data = unidec_set(tmp_path / "data", tiny_encoder)
    space = SearchSpace(small_heads())
    return data, LabelSource(tiny_encoder, space, data.label_tokens, first_rows())


@pytest.mark.parametrize("space", ["both", "dual", "classifier"])
@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_scores_are_sums_of_cosines(space, search, source, tiny_encoder, tmp_path):
    if search == "approximate":
        pytest.importorskip("faiss")
    data, whole = source
    source = replace(whole, space=SearchSpace(whole.space.heads, space))
    E = embed(tiny_encoder, data.tokens)
    settings = replace(SMALL, search=search, recall=1.0)
    made = LabelSearch.write(tmp_path / "search", source, np.arange(LABELS), settings, sample=E)
    found, scores = made.search(E[:9], LABELS)
    heads = source.space.heads
    Z = embed(tiny_encoder, data.label_tokens)
    dual = SearchSpace(heads, "dual").queries(E[:9]) @ SearchSpace(heads, "dual").queries(Z).T
    classifier = SearchSpace(heads, "classifier").queries(E[:9]) @ unit(first_rows()).T
    expected = {"both": dual + classifier, "dual": dual, "classifier": classifier}[space]
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1), atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, found, axis=1), scores, atol=1e-5)
    again, _ = LabelSearch.open(tmp_path / "search").search(E[:9], LABELS)
    np.testing.assert_array_equal(again, found)


def test_a_label_that_was_never_trained_is_found_by_its_text(source, tiny_encoder, tmp_path):
    _, whole = source
    tokens = TokenStore.write(tmp_path / "more", tiny_encoder, [[*WORDS[:LABELS], "travels of the sea"]])
    trained, every = np.arange(LABELS), np.arange(LABELS + 1)
    E = embed_texts(tiny_encoder, ["travels of the sea", "cat dog"])
    heads = whole.space.heads
    source = replace(whole, space=SearchSpace(heads, "dual"), tokens=tokens, trained=trained)
    found, scores = LabelSearch.write(tmp_path / "a", source, every, SMALL, sample=E).search(E, 3)
    assert found[0, 0] == LABELS
    assert scores[0, 0] == pytest.approx(1, abs=1e-5)
    both = replace(source, space=SearchSpace(heads, "both"))
    assert not both.of(every)[-1, 16:].any()  # it has no row in the classifier
    written = LabelSearch.write(tmp_path / "b", both, every, SMALL, sample=E)
    joined = LabelSearch.write(tmp_path / "c", both, trained, SMALL, sample=E).with_labels(every[-1:], E[:1])
    for one, other in zip(written.search(E, 25), joined.search(E, 25), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)  # as one that comes later does
    assert written.search(E, 1)[1][0, 0] == pytest.approx(2, abs=1e-5)  # its own text counts for both heads


def test_vectors_made_shard_by_shard_are_the_same(source, tmp_path, monkeypatch):
    _, source = source
    labels = np.arange(3, LABELS)
    at_once = source.write(tmp_path / "one", labels, "run 1")
    monkeypatch.setattr(vectors_module, "SHARD", 5)
    parts = source.write(tmp_path / "many", labels, "run 1")
    np.testing.assert_allclose(parts.vectors, at_once.vectors, atol=1e-5)
    np.testing.assert_array_equal(parts.ids, labels)
    assert not parts.vectors.flags.writeable  # mapped
    with pytest.raises(InputError, match="vectors of run 1, not of run 2"):
        LabelVectors.open(tmp_path / "many", identity="run 2")


def test_progress_is_told_of_all_shards_together(source, tmp_path, monkeypatch, caplog):
    _, source = source
    monkeypatch.setattr(vectors_module, "SHARD", 5)
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.0)
    with caplog.at_level(logging.INFO):
        source.write(tmp_path / "many", np.arange(3, LABELS))
    told = [record.message.partition(" texts")[0] for record in caplog.records]
    assert told == [f"embedding: {count} of 21" for count in (5, 10, 15, 20, 21)]


@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_a_search_of_another_run_is_refused(search, source, tiny_encoder, tmp_path):
    if search == "approximate":
        pytest.importorskip("faiss")
    data, source = source
    E = embed(tiny_encoder, data.tokens)
    settings = replace(SMALL, search=search)
    LabelSearch.write(tmp_path / "s", source, np.arange(LABELS), settings, sample=E, identity="run 1")
    assert LabelSearch.open(tmp_path / "s", identity="run 1").identity == "run 1"
    with pytest.raises(InputError, match="of run 1, not of run 2"):
        LabelSearch.open(tmp_path / "s", identity="run 2")
    small_heads(classifier=False).save(tmp_path / "s" / "heads")  # heads of another model
    with pytest.raises(InputError, match=r"16.*again|28.*again"):
        LabelSearch.open(tmp_path / "s")


def test_an_unfinished_or_damaged_search_is_refused(source, tiny_encoder, tmp_path):
    data, source = source
    with pytest.raises(InputError, match="no finished"):
        LabelSearch.open(tmp_path)
    E = embed(tiny_encoder, data.tokens, np.arange(4))
    LabelSearch.write(tmp_path, source, np.arange(LABELS), SMALL, sample=E)
    (tmp_path / "search.json").write_text(json.dumps({"kind": "something else"}))
    with pytest.raises(InputError, match="another kind"):
        LabelSearch.open(tmp_path)
    (tmp_path / "search.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        LabelSearch.open(tmp_path)


@pytest.mark.parametrize("classifier", [True, False])
def test_a_saved_model_makes_the_same_vectors(classifier, source, tiny_encoder, tmp_path):
    data, _ = source
    heads, table = small_heads(classifier=classifier), first_rows() if classifier else None
    model = UnidecModel(tiny_encoder, heads, table, np.arange(20))
    model.save(tmp_path / "model")
    found = UnidecModel.load(tmp_path / "model").source(data.label_tokens).of(np.arange(LABELS))
    np.testing.assert_array_equal(found, model.source(data.label_tokens).of(np.arange(LABELS)))
    assert not found[20:, 16:].any()  # not trained
    small_heads(width=32, classifier=classifier).save(tmp_path / "model" / "heads")
    with pytest.raises(InputError, match=r"encoder of 64 values and heads that read \[32\]"):
        UnidecModel.load(tmp_path / "model")
    with pytest.raises(InputError, match="belong together"):
        UnidecModel(tiny_encoder, heads, None if classifier else first_rows(), np.arange(20))


def test_what_a_space_needs_must_be_given(tiny_encoder):
    with pytest.raises(InputError, match="label texts"):
        LabelSource(tiny_encoder, SearchSpace(small_heads()), None, first_rows()).of(np.arange(2))
    with pytest.raises(InputError, match="classifier's vectors"):
        LabelSource(tiny_encoder, SearchSpace(small_heads(dual=False)), None, None).of(np.arange(2))


@pytest.mark.parametrize("excluding", [False, True])
def test_hard_negatives_are_the_nearest_labels_that_are_not_the_querys_own(
    source, tiny_encoder, tmp_path, excluding
):
    data, source = source
    never = np.random.default_rng(4).random((len(data), LABELS)) < (0.3 if excluding else 0.0)
    data = replace(data, excluded=as_csr(never.astype(np.float32)) if excluding else None)
    space = SearchSpace(source.space.heads, "dual")
    vectors = replace(source, space=space).of(np.arange(LABELS))
    rows = np.array([5, 0, 17, 40])
    queries = space.queries(embed(tiny_encoder, data.tokens, rows))
    index = opened_index(SMALL, vectors, np.arange(LABELS), queries, tmp_path)
    for most in (3, 30):  # and more than there are
        mined = hard_negatives(index, queries, data, rows, most)
        for place, row in enumerate(rows):
            own = {*data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]], *np.flatnonzero(never[row])}
            nearest = [label for label in np.argsort(-(vectors @ queries[place])) if label not in own][:most]
            expected = nearest + [-1] * (most - len(nearest))
            assert mined[place].tolist() == expected
