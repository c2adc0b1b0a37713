"""Search of labels: exact equals a sort of all scores; approximate finds as much as was asked for; a folder knows what
it is of."""

import shutil
import sys

import needs_torch  # noqa: F401
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import ConfigError, InputError
from xmcspark.neural.unidec import nearest
from xmcspark.neural.unidec.nearest import ExactLabels, NearestLabels


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clustered(rows, width, seed, topics=20):
    rng = np.random.default_rng(seed)
    topic = np.random.default_rng(7).normal(size=(topics, width))
    return unit(topic[rng.integers(0, topics, rows)] + 0.6 * rng.normal(size=(rows, width)))


def slow_best(vectors, ids, queries, k):
    """All scores, sorted by score and then by id."""
    scores = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    found = [sorted(zip(-row, ids, strict=True))[:k] for row in scores.round(6)]
    return np.array([[label for _, label in row] for row in found])


def recall(found, best):
    return np.mean(
        [len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), best.tolist(), strict=True)]
    )


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 70), st.booleans())
def test_exact_search_is_a_sort_of_all_scores(seed, labels, k, small_blocks):
    rng = np.random.default_rng(seed)
    vectors, queries = unit(rng.normal(size=(labels, 6))), unit(rng.normal(size=(4, 6)))
    ids = rng.permutation(1000)[:labels]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_BLOCK", 4 * 6 * 9 if small_blocks else 1 << 20)
        found, scores = ExactLabels(vectors, ids).search(queries, k)
    here = min(k, labels)
    np.testing.assert_array_equal(found[:, :here], slow_best(vectors, ids, queries, k))
    assert (np.diff(scores[:, :here], axis=1) <= 0).all()
    assert (found[:, here:] == -1).all()
    assert np.isneginf(scores[:, here:]).all()


def test_labels_of_equal_score_come_by_id():
    vectors = np.tile(np.array([[1.0, 0.0]], np.float32), (6, 1))
    ids = np.array([5, 3, 9, 1, 7, 0])
    found, _ = ExactLabels(vectors, ids).search(np.array([[1.0, 0.0]], np.float32), 4)
    assert found.tolist() == [[0, 1, 3, 5]]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    pytest.importorskip("faiss")
    vectors, queries = clustered(3000, 24, 0), clustered(900, 24, 1)
    ids = np.random.default_rng(2).permutation(5000)[:3000]
    folder = tmp_path_factory.mktemp("index")
    made = NearestLabels.write(folder, vectors, ids, queries=queries[:500], recall=0.97, identity="run 1")
    return folder, made, vectors, ids, queries


def test_as_much_is_found_as_was_asked_for(index):
    _, made, vectors, ids, queries = index
    best, exact_scores = ExactLabels(vectors, ids).search(queries[500:], 10)
    found, scores = made.search(queries[500:], 10)
    assert recall(found, best) >= 0.96
    assert made.recall >= 0.97
    assert made.walk < 512  # it is not a comparison with all labels
    own = np.einsum(
        "qd,qkd->qk", queries[500:], vectors[np.argsort(ids)][np.searchsorted(np.sort(ids), found)]
    )
    np.testing.assert_allclose(scores, own, atol=1e-5)
    assert (scores <= exact_scores + 1e-5).all()
    assert (np.diff(scores, axis=1) <= 0).all()


def test_the_walk_is_as_long_as_recall_takes(index, tmp_path):
    _, made, vectors, ids, queries = index
    less = NearestLabels.write(tmp_path, vectors, ids, queries=queries[:500], recall=0.5)
    assert less.walk < made.walk or made.walk == 16


def test_where_there_are_fewer_labels_than_asked_for_the_rest_is_empty(tmp_path):
    pytest.importorskip("faiss")
    vectors = clustered(5, 24, 0)
    found, scores = NearestLabels.write(tmp_path, vectors, queries=vectors).search(vectors[:2], 8)
    assert (np.sort(found[:, :5], axis=1) == np.arange(5)).all()
    assert (found[:, 5:] == -1).all()
    assert np.isneginf(scores[:, 5:]).all()


def test_labels_in_several_graphs_are_all_found_for_any_number_of_threads(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(nearest, "_PART", 4 * 24 * 700)
    vectors, queries = clustered(2000, 24, 3), clustered(300, 24, 4)
    ids = np.arange(2000)[::-1].copy()
    made = NearestLabels.write(tmp_path / "one", vectors, ids, queries=queries, recall=0.97)
    assert len(made.parts) == 3
    again = NearestLabels.write(tmp_path / "two", vectors, ids, queries=queries, recall=0.97, threads=2)
    for part in ("part-0.faiss", "part-2.faiss"):
        assert (tmp_path / "one" / part).read_bytes() == (tmp_path / "two" / part).read_bytes()
    assert made.walk == again.walk
    best, _ = ExactLabels(vectors, ids).search(queries, 10)
    assert recall(made.search(queries, 10)[0], best) >= 0.96
    own, _ = made.search(vectors, 1, walk=512)
    assert np.mean(own[:, 0] == ids) > 0.98


def test_an_index_is_the_same_each_time_it_is_made(index, tmp_path):
    folder, made, vectors, ids, queries = index
    again = NearestLabels.write(tmp_path, vectors, ids, queries=queries[:500], recall=0.97)
    assert made.walk == again.walk
    assert (folder / "part-0.faiss").read_bytes() == (tmp_path / "part-0.faiss").read_bytes()


def test_an_index_of_another_run_or_width_is_refused(index):
    folder = index[0]
    assert len(NearestLabels.open(folder, identity="run 1", width=24)) == 3000
    with pytest.raises(InputError, match="index of run 1, not of run 2"):
        NearestLabels.open(folder, identity="run 2")
    with pytest.raises(InputError, match="vectors of 24 values, queries have 64"):
        NearestLabels.open(folder, width=64)
    with pytest.raises(InputError, match="same heads"):
        index[1].search(np.zeros((2, 23), np.float32), 5)


def test_a_damaged_index_is_refused(index, tmp_path):
    shutil.copytree(index[0], tmp_path / "copy")
    part = tmp_path / "copy" / "part-0.faiss"
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"part-0.faiss has \d+ bytes where \d+ were written"):
        NearestLabels.open(tmp_path / "copy")
    whole = (index[0] / "part-0.faiss").read_bytes()
    too_many = (1 << 44).to_bytes(8, "little")  # where a length stands: more memory than there is
    for damaged in (b"\xff" * 200 + whole[200:], whole[:108] + too_many + whole[116:]):
        part.write_bytes(damaged)
        with pytest.raises(InputError, match=r"part-0.faiss is damaged, .* copy or make the index again"):
            NearestLabels.open(tmp_path / "copy")
    part.unlink()
    with pytest.raises(InputError, match="has no bytes where"):
        NearestLabels.open(tmp_path / "copy")


def test_without_faiss_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"needs faiss.*or set unidec.search to exact"):
        NearestLabels.write(tmp_path, clustered(5, 24, 0), queries=clustered(5, 24, 1))


def test_what_cannot_be_searched_is_refused(tmp_path):
    with pytest.raises(InputError, match="float32 vectors"):
        ExactLabels(np.zeros((3, 2)))
    with pytest.raises(InputError, match="2 ids were given for 3"):
        ExactLabels(np.zeros((3, 2), np.float32), np.arange(2))
    pytest.importorskip("faiss")
    with pytest.raises(InputError, match="tuned on queries"):
        NearestLabels.write(tmp_path, np.ones((3, 2), np.float32), queries=np.zeros((0, 2), np.float32))
