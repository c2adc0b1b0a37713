"""Batches cover every row once, in an order that follows from seed and epoch alone, with little padding; forward passes
are cut where that is cheapest."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.neural.length_batches import EpochBatches, forward_passes, length_batches


@given(
    lengths=st.lists(st.integers(1, 60), max_size=400),
    size=st.integers(1, 9),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
)
def test_every_row_is_in_one_batch(lengths, size, seed, epoch):
    lengths = np.array(lengths, np.int32)
    batches = length_batches(lengths, size, seed, epoch)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert sum(len(batch) < size for batch in batches) <= 1
    assert all((np.diff(lengths[batch]) >= 0).all() for batch in batches)
    again = length_batches(lengths, size, seed, epoch)
    assert all((one == other).all() for one, other in zip(batches, again, strict=True))


def test_epochs_and_seeds_have_orders_of_their_own():
    lengths = np.full(200, 5)
    first, other_epoch, other_seed = (
        np.concatenate(length_batches(lengths, 8, *which)).tolist() for which in ((1, 0), (1, 1), (2, 0))
    )
    assert first != other_epoch
    assert first != other_seed


def test_rows_of_like_length_are_together_but_lengths_come_mixed():
    lengths = np.random.default_rng(0).integers(3, 60, 5000)
    batches = length_batches(lengths, 32, 0, 0)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.1 * lengths.sum()
    means = [lengths[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.3, "training should not go from short to long"


def test_steps_go_through_one_epoch_after_the_other():
    lengths, rows = np.arange(1, 41), np.arange(3, 30)
    batches = EpochBatches(lengths, 4, seed=1, rows=rows)
    assert batches.per_epoch == 7
    for epoch in (0, 1):
        visited = [row for step in range(7) for row in batches.batch(epoch * 7 + step)]
        assert sorted(visited) == rows.tolist()
    late = batches.batch(13)
    assert (EpochBatches(lengths, 4, seed=1, rows=rows).batch(13) == late).all(), "any step, at any time"


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_make_few_batches(rows):
    assert len(length_batches(np.ones(rows, np.int32), 4, 0, 0)) == rows


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    most=st.integers(1, 9),
    overhead=st.integers(0, 40),
)
def test_passes_hold_every_text_once_from_short_to_long_and_none_is_too_large(lengths, most, overhead):
    passes = forward_passes(np.array(lengths), most, overhead)
    assert sorted(np.concatenate(passes).tolist()) == list(range(len(lengths)))
    assert np.all(np.diff(np.array(lengths)[np.concatenate(passes)]) >= 0)
    assert all(1 <= len(places) <= most for places in passes)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    most=st.integers(1, 8),
    overhead=st.integers(0, 40),
)
def test_passes_cost_as_little_as_any_cut_would(lengths, most, overhead):
    ordered = sorted(lengths)

    def cost(cuts):
        parts = list(zip((0, *cuts), (*cuts, len(ordered)), strict=True))
        if any(end - start > most for start, end in parts):
            return np.inf
        return sum((end - start) * ordered[end - 1] + overhead for start, end in parts)

    every = range(len(ordered))
    best = min(cost(cuts) for count in every for cuts in combinations(every[1:], count))
    passes = forward_passes(np.array(lengths), most, overhead)
    assert cost(np.cumsum([len(places) for places in passes])[:-1].tolist()) == best


def test_a_pass_that_costs_much_is_not_cut_and_one_that_costs_nothing_is_cut_at_each_length():
    lengths = np.array([5, 1, 3, 1, 5])
    assert [places.tolist() for places in forward_passes(lengths, 9, 1000)] == [[1, 3, 2, 0, 4]]
    assert [places.tolist() for places in forward_passes(lengths, 9, 0)] == [[1, 3], [2], [0, 4]]
