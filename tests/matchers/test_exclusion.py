"""Excluded labels are never predicted, and rows still get as many labels as the beam reaches."""

import numpy as np
import pytest
from random_model import random_excluded, random_model, random_rows

from xmcspark.matchers.exclusion import holds, search_without, without
from xmcspark.matchers.members import Members, MemberSettings
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.presets import Ensemble
from xmcspark.matchers.scoring import Scoring
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.rows import take_rows


@pytest.mark.parametrize("top_k", [1, 5, 100])
@pytest.mark.parametrize("beam", [2, 50])
def test_the_answer_is_the_whole_ranking_without_the_excluded(top_k, beam):
    searcher, X = random_model().searcher, as_csr(random_rows())
    excluded = as_csr(random_excluded(90, 57))
    found = search_without(searcher, X, excluded, beam=beam, top_k=top_k)
    everything = searcher.predict(X, beam=beam, top_k=57)
    assert found.k == min(top_k, 57)
    for row in range(90):
        never = set(excluded.indices[excluded.indptr[row] : excluded.indptr[row + 1]])
        ranking = [
            (label, score)
            for label, score in zip(everything.labels[row], everything.scores[row], strict=True)
            if label >= 0 and label not in never
        ][:top_k]
        kept = found.labels[row] >= 0
        assert list(zip(found.labels[row][kept], found.scores[row][kept], strict=True)) == ranking


def test_without_exclusions_search_is_as_ever():
    searcher, X = random_model().searcher, as_csr(random_rows())
    nothing = as_csr(np.zeros((90, 57)))
    found, expected = (
        search_without(searcher, X, nothing, beam=3, top_k=4),
        searcher.predict(X, beam=3, top_k=4),
    )
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def test_excluded_labels_that_nobody_knows_do_no_harm():
    ranked = Predictions(np.array([[4, 2, -1]]), np.array([[0.5, 0.25, -np.inf]]))
    excluded = as_csr(np.eye(1, 2**10, 900))
    assert without(ranked, excluded, 3).labels.tolist() == [[4, 2, -1]]
    assert without(ranked, as_csr(np.eye(1, 9, 4)), 2).labels.tolist() == [[2, -1]]


def test_holds_looks_at_the_own_row_only():
    matrix = as_csr([[0, 1, 0], [1, 0, 0]])
    assert holds(matrix, np.array([[0, 1, -1], [0, 1, 2]])).tolist() == [
        [False, True, False],
        [True, False, False],
    ]


def test_rows_are_taken_in_the_order_asked_for():
    X = random_rows()
    rows = np.array([5, 0, 5, 89])
    assert (take_rows(as_csr(X), rows).to_scipy() != X[rows]).nnz == 0


@pytest.mark.parametrize("fusion", ["average", "rank", "normalised"])
def test_members_predict_as_the_ensemble_does(tmp_path, fusion):
    models = tuple(random_model(seed=seed) for seed in (0, 1))
    for number, model in enumerate(models):
        model.searcher.save(tmp_path / str(number))
    scoring, X = Scoring("l2-hinge"), as_csr(random_rows())
    members = Members.load(tmp_path, MemberSettings(2, fusion, scoring))
    found = members.predict(X, as_csr(np.zeros((90, 57))), beam=4, top_k=6)
    expected = Ensemble(tuple(m.with_scoring("l2-hinge") for m in models), fusion).predict(X, beam=4, top_k=6)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)
