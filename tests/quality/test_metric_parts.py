"""Parts of an evaluation, cut by rows and by labels, add up to the whole; profiles survive files."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.label_pairs import no_deviations, pair_deviations, with_sample
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.label_profile_files import load_profile, save_profile
from xmcspark.quality.label_statistics import with_all_labels
from xmcspark.quality.metric_parts import (
    added_counts,
    block_label_sums,
    block_metrics,
    blocks_of_labels,
    counts_table,
    cut_by_block,
    no_label_sums,
    no_row_replicates,
    no_row_sums,
    with_bytes,
)
from xmcspark.quality.metrics import evaluate
from xmcspark.quality.metrics_text import metrics_text
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.rows import take_rows

KS = (1, 3, 10)


def problem(rows=60, labels=30, k=5, seed=0):
    rng = np.random.default_rng(seed)
    ranked = np.array([rng.permutation(labels)[:k] for _ in range(rows)])
    ranked[::7, 2:] = -1
    scores = np.where(ranked >= 0, -np.arange(k, dtype=np.float32), -np.inf)
    truth = as_csr(sp.random(rows, labels, 0.1, format="csr", random_state=rng, dtype=np.float32))
    profile = LabelProfile.from_counts(rng.integers(0, 100, labels), 100)
    return Predictions(ranked, scores), truth, profile


@pytest.mark.parametrize("profile_of", [lambda p: p, lambda p: LabelProfile.plain(p.n_labels)])
def test_parts_cut_by_rows_and_labels_add_up_to_the_whole(tmp_path, profile_of):
    predictions, truth, profile = problem()
    profile = profile_of(profile)
    save_profile(profile, tmp_path)
    opened = load_profile(tmp_path)
    sums, replicates, tables, pairs = [], [], {}, {}
    for rows in np.array_split(np.random.default_rng(1).permutation(60), 4):
        some = Predictions(predictions.labels[rows], predictions.scores[rows])
        part = block_metrics(some, take_rows(truth, rows), opened, KS, 50, rows)
        sums.append(part.rows.values.tobytes())
        replicates.append(part.replicates.values.tobytes())
        table = counts_table(part.labels)
        for block, lines in cut_by_block(table, table[:, 0], block_labels=7, most=2):
            assert len(lines) <= 2
            tables.setdefault(block, []).append(lines)
        for block, lines in cut_by_block(part.pairs, part.pairs["label"], block_labels=7, most=20):
            pairs.setdefault(block, []).append(lines)
    assert sorted(tables) == sorted(pairs) == [0, 1, 2, 3, 4]
    parts = [block_label_sums(added_counts(some), opened, KS).values.tobytes() for some in tables.values()]
    labels = with_all_labels(with_bytes(no_label_sums(opened, KS), *parts), opened)
    blocks = [
        pair_deviations(np.concatenate(some), opened, KS, 50).values.tobytes() for some in pairs.values()
    ]
    of_pairs = with_sample(with_bytes(no_deviations(opened, KS, 50), *blocks), labels)
    all_replicates = with_bytes(no_row_replicates(opened, KS, 50), *replicates).and_of(of_pairs)
    found = with_bytes(no_row_sums(opened, KS), *sums).to_rows(all_replicates) + labels.to_rows(
        all_replicates
    )
    expected = evaluate(predictions, truth, profile, KS, bootstrap=50)
    assert [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in expected]


@pytest.mark.parametrize(
    ("labels", "rows", "slots", "expected"),
    [
        (0, 0, 2, (1, 1)),
        (30_000, 2_000, 2, (1, 30_000)),
        (30_000, 60_000, 2, (3, 10_000)),  # two cores have something to do
        (3_000_000, 1_000, 2, (3, 1_000_000)),
        (1_000, 100_000_000, 4, (500, 2)),  # pairs must fit in memory
        (5, 10_000_000, 4, (5, 1)),
    ],
)
def test_labels_are_cut_by_their_number_and_by_the_pairs_to_hold(labels, rows, slots, expected):
    assert blocks_of_labels(labels, rows, 10, slots) == expected


def test_no_counts_add_up_to_none():
    assert added_counts([np.empty((0, 8), np.int64)]).shape == (0, 8)


def test_a_label_beyond_the_profile_names_the_remedy():
    predictions, truth, profile = problem()
    with pytest.raises(InputError, match=r"label 29 occurs .* the table labels ends at 9"):
        block_metrics(predictions, truth, profile.take(np.arange(10)), KS)


def test_the_text_has_a_line_for_each_metric_and_a_column_for_each_k():
    predictions, truth, profile = problem()
    rows = evaluate(predictions, truth, profile, KS)
    lines = metrics_text(rows).splitlines()
    assert lines[0].split() == ["%", "@1", "@3", "@10"]
    assert [line.split()[0] for line in lines[1:]] == ["P", "R", "nDCG", "PSP"]
    value = next(row.value for row in rows if (row.metric, row.k, row.bin) == ("P", 3, "all"))
    assert lines[1].split()[2] == f"{100 * value:.2f}"


def test_the_text_leaves_out_what_is_not_known():
    predictions, truth, _ = problem()
    assert "PSP" not in metrics_text(evaluate(predictions, truth))
    empty = as_csr(sp.csr_matrix(truth.shape, dtype=np.float32))
    assert metrics_text(evaluate(predictions, empty)).splitlines()[2].split() == ["R", "-", "-", "-", "-"]
    assert "nothing to evaluate" in metrics_text([])
