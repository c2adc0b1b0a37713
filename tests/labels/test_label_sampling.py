"""Which labels' texts become instances: about the share asked for, tail first where asked, the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.labels import AugmentSettings
from xmcspark.labels.label_sampling import LabelSample, row_stays
from xmcspark.quality.label_bins import equal_volume_bins


def frequencies(seed, labels=5000):
    """Most labels are rare."""
    return np.random.default_rng(seed).geometric(0.1, labels)


def taken(positives, share, sample, seed=0):
    rule = LabelSample.of(positives, AugmentSettings(share=share, sample=sample), seed)
    return rule.takes(np.arange(len(positives)), positives)


@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 1.0), sample=st.sampled_from(["uniform", "tail"]))
def test_about_the_share_that_was_asked_for_is_taken(seed, share, sample):
    found = taken(frequencies(seed), share, sample, seed)
    assert abs(found.mean() - share) < 5 * np.sqrt(share * (1 - share) / 5000) + 1e-9


@given(seed=st.integers(0, 10**6), part=st.sets(st.integers(0, 4999), min_size=1, max_size=50))
def test_a_partition_decides_as_the_whole_does(seed, part):
    positives, some = frequencies(3), np.array(sorted(part))
    for sample in ("uniform", "tail"):
        rule = LabelSample.of(positives, AugmentSettings(share=0.3, sample=sample), seed)
        whole = rule.takes(np.arange(5000), positives)
        np.testing.assert_array_equal(rule.takes(some, positives[some]), whole[some])


@pytest.mark.parametrize("share", [0.25, 0.75, 0.9, 0.97])
def test_tail_first_takes_a_whole_bin_before_any_of_a_more_frequent_one(share):
    positives = frequencies(1)
    rule = LabelSample.of(positives, AugmentSettings(share=share, sample="tail"), 0)
    found, below = rule.takes(np.arange(5000), positives), positives <= rule.all_up_to
    border = ~below & (positives <= rule.some_up_to)
    assert found[below].all()
    assert not found[~below & ~border].any()
    assert 0 < found[border].mean() < 1
    # Whole bins have a fifth of all positives each, as far as labels of one frequency stay together.
    bins = 5 * positives[below].sum() / positives.sum()
    assert abs(bins - round(bins)) < 0.2
    assert abs(5 * positives[border].sum() / positives.sum() - 1) < 0.4


def test_tail_first_leaves_the_head_out_that_uniform_takes():
    positives = frequencies(1)
    head = equal_volume_bins(positives).of_label == 0
    assert taken(positives, 0.5, "uniform")[head].any()
    assert not taken(positives, 0.5, "tail")[head].any()


def test_all_labels_are_taken_by_default():
    for sample in ("uniform", "tail"):
        assert taken(np.arange(100), 1.0, sample).all()


def test_a_larger_share_keeps_what_a_smaller_one_took():
    positives = frequencies(2)
    for sample in ("uniform", "tail"):
        small, large = (taken(positives, share, sample, seed=9) for share in (0.2, 0.6))
        assert not (small & ~large).any()


def test_no_positives_at_all_are_no_problem():
    assert taken(np.zeros(50, np.int64), 0.5, "tail").sum() in range(5, 45)


def test_rows_stay_by_their_keys():
    keys = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20_000)
    stays = row_stays(keys, 0.7, seed=1)
    assert abs(stays.mean() - 0.7) < 0.02
    np.testing.assert_array_equal(row_stays(keys[::-1], 0.7, seed=1), stays[::-1])
    assert row_stays(keys, 1.0, seed=1).all()
    assert not row_stays(keys, 0.0, seed=1).any()
    assert (row_stays(keys, 0.7, seed=2) != stays).any()
