"""Errors by instance and by label, against loops over sets."""

from collections import Counter

import numpy as np
import slow_reference as slow
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.error_tables import added_confusions, confusions, instance_errors, label_errors
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metric_parts import counts_table
from xmcspark.quality.metrics import partial_metrics, positives_of
from xmcspark.sparse.csr import as_csr

N_LABELS = 30


def rows_of(columns):
    names = list(columns)
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*(c.to_pylist() for c in columns.values()), strict=True)
    ]


def slow_instance_errors(predictions, Y, k):
    for i, (ranked, true) in enumerate(slow.lists(predictions, Y)):
        best = ranked[:k]
        ranks = [r for r, label in enumerate(best, 1) if label in true]
        yield {
            "actual": len(true),
            "hits": len(ranks),
            "first_hit": ranks[0] if ranks else None,
            "score": float(predictions.scores[i, 0]) if ranked else None,
            "missed": sorted(set(true) - set(best)),
            "wrong": best[: ranks[0] - 1] if ranks else best,
        }


def slow_confusions(predictions, Y, k):
    times = Counter()
    for ranked, true in slow.lists(predictions, Y):
        wrong = [label for label in ranked[:k] if label not in true][:3]
        times.update((label, said) for label in set(true) - set(ranked[:k]) for said in wrong)
    return times


@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(1, 10))
def test_instance_errors_are_what_loops_give(seed, rows, k):
    predictions, Y = slow.random_case(seed, rows=rows, n_labels=N_LABELS)
    found = rows_of(instance_errors(predictions, as_csr(Y), k))
    assert found == list(slow_instance_errors(predictions, Y, k))


def test_instances_without_any_predictions_missed_everything():
    nothing = Predictions(np.empty((2, 0), np.int32), np.empty((2, 0)))
    found = rows_of(instance_errors(nothing, as_csr(np.eye(2, 3, dtype=np.float32)), 5))
    assert found[1] == {"actual": 1, "hits": 0, "first_hit": None, "score": None, "missed": [1], "wrong": []}
    assert not len(confusions(nothing, as_csr(np.eye(2, 3, dtype=np.float32)), 5))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 40))
def test_confusions_of_parts_add_up_to_what_loops_give(seed, k, cut):
    predictions, Y = slow.random_case(seed, rows=40, n_labels=N_LABELS)
    parts = [confusions(predictions.slice_rows(a, b), as_csr(Y[a:b]), k) for a, b in ((0, cut), (cut, 40))]
    found = {(missed, wrong): n for missed, wrong, n in added_confusions(parts).tolist()}
    assert found == slow_confusions(predictions, Y, k)


@given(st.integers(0, 2**32), st.permutations([1, 3, 8]))
def test_label_errors_are_what_loops_give(seed, ks):
    predictions, Y = slow.random_case(seed, rows=40, n_labels=N_LABELS)
    ks = tuple(ks)
    part = partial_metrics(predictions, Y, LabelProfile.plain(N_LABELS), ks, bootstrap=0)
    counts, positives = counts_table(part.labels), np.arange(N_LABELS) * 10
    confused = confusions(predictions, positives_of(Y), 8)
    found = rows_of(label_errors(counts, confused, positives[counts[:, 0]], ks))
    times = slow_confusions(predictions, Y, 8)
    expected = []
    tables = {k: slow.label_tables(predictions, Y, k) for k in ks}
    for label in range(N_LABELS):
        if not (tables[8][1][label] or tables[8][2][label]):
            continue
        wrong = sorted((-n, said) for (missed, said), n in times.items() if missed == label)[:3]
        for k in sorted(ks):
            hits, predicted, actual = (table[label] for table in tables[k])
            expected.append(
                {
                    "label": label,
                    "k": k,
                    "positives": 10 * label,
                    "actual": actual,
                    "predicted": predicted,
                    "hits": hits,
                    "precision": hits / predicted if predicted else None,
                    "recall": hits / actual if actual else None,
                    "confused_with": [said for _, said in wrong] if k == 8 else [],
                    "confused_times": [-n for n, _ in wrong] if k == 8 else [],
                }
            )
    assert found == expected
