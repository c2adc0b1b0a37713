"""A sketch predicts what its repetitions say, in blocks or one by one, without excluded labels; folders whose
repetitions do not belong together are refused by name."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.mach.linear import train_linear
from xmcspark.mach.model import LABELS, Sketch
from xmcspark.mach.repetition import LinearRepetition, MlpRepetition, Part
from xmcspark.mach.settings import MachSettings
from xmcspark.mach.targets import live_labels
from xmcspark.matchers.model import Matchers
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.settings import TrainSettings
from xmcspark.sparse.csr import Csr, as_csr

BUCKETS, REPETITIONS, LABELS_IN_ALL, FEATURES, ROWS = 11, 4, 60, 25, 33
EXACT = MachSettings(buckets=BUCKETS, repetitions=REPETITIONS, recovery="exact")


def _part(repetition: int) -> Part:
    return Part(repetition, 9, BUCKETS, LABELS_IN_ALL, FEATURES)


def _repetition(part: Part) -> LinearRepetition:
    rng = np.random.default_rng(part.repetition)
    W = sp.random(part.buckets, part.columns, 0.4, format="csr", random_state=rng, dtype=np.float32)
    W.data -= 0.5
    return LinearRepetition.of(
        part, Matchers(as_csr(W), rng.normal(-1, 0.2, part.buckets).astype(np.float32))
    )


def _live() -> np.ndarray:
    return np.arange(LABELS_IN_ALL) % 7 != 3


def _sketch(settings: MachSettings = EXACT, scoring: Scoring | None = None) -> Sketch:
    return Sketch([_repetition(_part(r)) for r in range(REPETITIONS)], _live(), settings, scoring)


def _rows(seed: int = 0, rows: int = ROWS) -> Csr:
    rng = np.random.default_rng(seed)
    X = sp.random(rows, FEATURES, 0.2, format="csr", random_state=rng, dtype=np.float32).tolil()
    X[0] = 0  # a row without features
    return as_csr(X.tocsr())


def _all_scores(sketch: Sketch, X: Csr) -> np.ndarray:
    """Mean probability of each label by hand; -inf where it is not live."""
    total = np.zeros((X.shape[0], LABELS_IN_ALL), np.float64)
    for repetition in sketch.repetitions:
        p = 1 / (1 + np.exp(-repetition.margins(X).astype(np.float64)))
        total += p[:, repetition.part.bucket_hash.of(np.arange(LABELS_IN_ALL))]
    return np.where(sketch.live, total / len(sketch.repetitions), -np.inf)


@pytest.mark.parametrize("recovery", ["exact", "fast"])
def test_the_best_labels_are_those_with_the_best_mean(recovery):
    sketch, X = _sketch(replace(EXACT, recovery=recovery, top_buckets=BUCKETS, min_count=1)), _rows()
    found = sketch.predict(X, top_k=8, threads=2).check(LABELS_IN_ALL)
    expected = _all_scores(sketch, X)
    assert np.allclose(found.scores, -np.sort(-expected, axis=1)[:, :8], atol=1e-6)
    assert np.allclose(np.take_along_axis(expected, found.labels, axis=1), found.scores, atol=1e-6)


@pytest.mark.parametrize("recovery", ["exact", "fast"])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_threads_and_single_queries_give_the_same_bits(recovery, threads, monkeypatch):
    sketch, X = _sketch(replace(EXACT, recovery=recovery, top_buckets=4)), _rows()
    whole = sketch.predict(X, top_k=6)
    monkeypatch.setattr("xmcspark.mach.model._BLOCK_BYTES", 5 * 4 * BUCKETS * REPETITIONS)
    cut = sketch.predict(X, top_k=6, threads=threads)
    assert np.array_equal(cut.labels, whole.labels)
    assert np.array_equal(cut.scores, whole.scores)
    for row in range(ROWS):
        cells = slice(X.indptr[row], X.indptr[row + 1])
        one = sketch.predict_one(X.indices[cells], X.data[cells], top_k=6)
        assert np.array_equal(one.labels[0], whole.labels[row])
        assert np.array_equal(one.scores[0], whole.scores[row])


@pytest.mark.parametrize("recovery", ["exact", "fast"])
def test_ranges_of_labels_one_after_the_other_give_the_same_bits(recovery):
    X, settings = _rows(), replace(EXACT, recovery=recovery, top_buckets=2)
    whole = _sketch(settings).predict(X, top_k=12)
    by_range = _sketch(replace(settings, labels_at_once=13))
    parts = by_range.predict(X, top_k=12)
    assert np.array_equal(parts.labels, whole.labels)
    assert np.array_equal(parts.scores, whole.scores)
    for row in range(ROWS):
        cells = slice(X.indptr[row], X.indptr[row + 1])
        one = by_range.predict_one(X.indices[cells], X.data[cells], top_k=12)
        assert np.array_equal(one.labels[0], whole.labels[row])
        assert np.array_equal(one.scores[0], whole.scores[row])
    assert "recovery" not in vars(by_range)  # that of all labels was never made


@pytest.mark.parametrize("labels_at_once", [0, 25])
@pytest.mark.parametrize("top_k", [1, 5, LABELS_IN_ALL])
def test_excluded_labels_are_left_out_and_as_many_others_found(top_k, labels_at_once):
    sketch, X = _sketch(replace(EXACT, labels_at_once=labels_at_once)), _rows()
    rng = np.random.default_rng(2)
    E = (rng.random((ROWS, LABELS_IN_ALL)) < rng.choice([0.0, 0.02, 0.5], (ROWS, 1))).astype(np.float32)
    E[1] = 1  # nothing is left
    found = sketch.predict(X, excluded=as_csr(E), top_k=top_k).check(LABELS_IN_ALL)
    ranking = sketch.predict(X, top_k=LABELS_IN_ALL)
    for row in range(ROWS):
        left = [label for label in ranking.labels[row] if label >= 0 and not E[row, label]][:top_k]
        assert found.labels[row].tolist() == left + [-1] * (top_k - len(left))
    assert (found.labels[1] == -1).all()


def test_without_exclusions_nothing_changes():
    sketch, X = _sketch(), _rows()
    found = sketch.predict(X, excluded=as_csr(np.zeros((ROWS, LABELS_IN_ALL))), top_k=4)
    assert np.array_equal(found.labels, sketch.predict(X, top_k=4).labels)


def test_labels_that_are_not_live_are_never_predicted():
    found = _sketch().predict(_rows(), top_k=LABELS_IN_ALL)
    live = int(_live().sum())
    assert (np.sort(found.labels[:, :live], axis=1) == np.flatnonzero(_live())).all()
    assert (found.labels[:, live:] == -1).all()


def test_margins_become_what_the_scoring_says():
    X, hinge = _rows(), _sketch(scoring=Scoring("l2-hinge"))
    z = np.stack([repetition.margins(X) for repetition in hinge.repetitions], axis=1)
    assert np.allclose(hinge.probabilities(X), np.exp(-(np.maximum(0, 1 - z) ** 2)), atol=1e-6)


def test_a_saved_sketch_opens_as_it_was(tmp_path):
    sketch, X = _sketch(), _rows()
    sketch.save(tmp_path)
    opened = Sketch.load(tmp_path, EXACT)
    assert np.array_equal(opened.live, sketch.live)
    assert opened.n_bytes == sketch.n_bytes
    found, expected = opened.predict(X), sketch.predict(X)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def test_learners_may_be_mixed(tmp_path):
    rng = np.random.default_rng(0)
    shapes = ((FEATURES, 3), (3,), (3, BUCKETS), (BUCKETS,))
    mlp = MlpRepetition.of(_part(1), *(rng.normal(size=s).astype(np.float32) for s in shapes), False)
    sketch = Sketch([_repetition(_part(0)), mlp], _live(), replace(EXACT, repetitions=2))
    sketch.save(tmp_path)
    X = _rows()
    assert np.array_equal(Sketch.load(tmp_path, EXACT).predict(X).labels, sketch.predict(X).labels)


def test_a_missing_repetition_is_named(tmp_path):
    _sketch().save(tmp_path)
    shutil.rmtree(tmp_path / "2")
    with pytest.raises(InputError, match=r"/2 is missing: the sketch has 4 repetitions"):
        Sketch.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 10}, "repetition 0 has seed 10 and not 9"),
        ({"buckets": 12}, "repetition 0 has buckets 12 and not 11"),
        ({"labels": 61}, "repetition 0 has labels 61 and not 60"),
        ({"features": 26}, "repetition 0 has features 26 and not 25"),
        ({"repetition": 3}, "in the place of repetition 0 there is repetition 3"),
    ],
)
def test_a_repetition_of_another_sketch_is_named(change, message, tmp_path):
    _sketch().save(tmp_path)
    _repetition(replace(_part(0), **change)).save(tmp_path / "0")
    with pytest.raises(InputError, match=message):
        Sketch.load(tmp_path)


def test_labels_of_another_sketch_are_refused(tmp_path):
    with pytest.raises(InputError, match="61 labels are marked"):
        Sketch([_repetition(_part(0))], np.ones(61, bool))
    with pytest.raises(InputError, match="at least one repetition"):
        Sketch([], np.ones(61, bool))
    _sketch().save(tmp_path)
    header = json.loads((tmp_path / LABELS / "header.json").read_text())
    (tmp_path / LABELS / "header.json").write_text(json.dumps({**header, "labels": 70}))
    with pytest.raises(InputError, match="not those of 70 labels"):
        Sketch.load(tmp_path)
    shutil.rmtree(tmp_path / LABELS)
    with pytest.raises(InputError, match="not a saved mach labels"):
        Sketch.load(tmp_path)


@pytest.mark.parametrize("top_k", [0, LABELS_IN_ALL + 1])
def test_more_labels_than_there_are_cannot_be_asked_for(top_k):
    with pytest.raises(InputError, match=f"top_k is {top_k} with 60 labels"):
        _sketch().predict(_rows(), top_k=top_k)
    with pytest.raises(InputError, match=f"top_k is {top_k} with 60 labels"):
        _sketch().predict_one(np.zeros(0, np.int32), np.zeros(0, np.float32), top_k=top_k)


@pytest.mark.parametrize(
    ("features", "values"), [([3, 2], [1, 1]), ([25], [1]), ([1], [np.nan]), ([1, 2], [1])]
)
def test_a_query_that_is_none_is_refused(features, values):
    with pytest.raises(InputError, match="a query is features in increasing order"):
        _sketch().predict_one(np.array(features, np.int32), np.array(values, np.float32))


def test_trained_repetitions_rank_the_labels_of_their_rows_first():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, LABELS_IN_ALL, 400)
    X = as_csr(
        sp.csr_matrix((np.ones(400, np.float32), (np.arange(400), labels % FEATURES)), (400, FEATURES))
    )
    X = as_csr(
        sp.hstack([X.to_scipy(), sp.csr_matrix((labels[:, None] // FEATURES) == np.arange(3))]).tocsr()
    )
    Y = as_csr(sp.csr_matrix((np.ones(400, np.float32), (np.arange(400), labels)), (400, LABELS_IN_ALL)))
    parts = [Part(r, 0, 20, LABELS_IN_ALL, FEATURES + 3) for r in range(8)]
    settings = TrainSettings(cost_positive=10, cost_negative=10, threshold=0)
    sketch = Sketch([train_linear(X, Y, part, settings) for part in parts], live_labels(Y), EXACT)
    found = sketch.predict(X, top_k=3)
    assert (found.labels == labels[:, None]).any(axis=1).mean() > 0.9
