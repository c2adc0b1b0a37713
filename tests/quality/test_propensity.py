"""The propensity model and the frequency bins."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.quality.label_bins import equal_volume_bins, head_torso_tail
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.propensity import PROPENSITY_PRESETS, inverse_propensity, label_counts

COUNTS = np.array([0, 1, 2, 10, 500, 1])


@pytest.mark.parametrize(
    ("preset", "A", "B"), [("default", 0.55, 1.5), ("wikipedia", 0.5, 0.4), ("amazon", 0.6, 2.6)]
)
def test_presets_are_the_published_ones_and_follow_the_formula(preset, A, B):
    assert PROPENSITY_PRESETS[preset] == (A, B)
    C = (np.log(1000) - 1) * (B + 1) ** A
    p = 1 / (1 + C * np.exp(-A * np.log(COUNTS + B)))
    np.testing.assert_allclose(inverse_propensity(COUNTS, 1000, A, B), 1 / p, rtol=1e-13)
    weights = LabelProfile.from_counts(COUNTS, 1000, preset).weights
    np.testing.assert_allclose(weights, (1 / p) / (1 / p).max(), rtol=1e-13)


def test_given_parameters_override_the_preset():
    ours = LabelProfile.from_counts(COUNTS, 1000, "amazon", A=0.55, B=1.5)
    np.testing.assert_array_equal(ours.weights, LabelProfile.from_counts(COUNTS, 1000).weights)


def test_given_propensities_replace_the_model():
    inverse = np.array([4.0, 2, 1, 1, 1, 2])
    ours = LabelProfile.from_counts(COUNTS, 1000, inverse_propensities=inverse)
    np.testing.assert_array_equal(ours.weights, inverse / 4)


def test_tiny_training_sets_weigh_all_labels_alike():
    np.testing.assert_array_equal(inverse_propensity(np.array([0, 1, 2]), 2), 1.0)


def test_counts_of_training_labels_are_of_positive_values():
    Y = sp.csr_matrix(np.array([[1, 0, 0.5], [2, 0, 0]], np.float32))
    assert label_counts(Y).tolist() == [2, 0, 1]
    assert LabelProfile.from_training(Y).n_labels == 3


def test_head_torso_tail_limits():
    bins = head_torso_tail(np.array([101, 100, 10, 9, 0]))
    assert [bins.names[b] for b in bins.of_label] == ["head", "torso", "torso", "tail", "tail"]
    assert bins.sizes.tolist() == [1, 2, 2]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=300))
def test_volume_bins_run_from_head_to_tail_and_are_as_equal_as_labels_allow(counts):
    counts = np.array(counts)
    bins = equal_volume_bins(counts)
    order = np.lexsort((np.arange(len(counts)), -counts))
    assert (np.diff(bins.of_label[order]) >= 0).all()
    assert bins.sizes.sum() == len(counts)
    volumes = np.bincount(bins.of_label, weights=counts, minlength=5)
    # A label cannot be split, so each border is off by half a label at most.
    assert np.abs(volumes - counts.sum() / 5).max() <= counts.max() + 1e-9


def test_volume_bins_split_equal_counts_by_label_id():
    assert equal_volume_bins(np.ones(10, int)).of_label.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_labels_without_positives_are_in_the_last_bin():
    assert equal_volume_bins(np.zeros(3, int)).of_label.tolist() == [4, 4, 4]
    assert equal_volume_bins(np.array([7, 0])).of_label.tolist() == [2, 4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: inverse_propensity(np.array([-1]), 10),
        lambda: inverse_propensity(np.array([0.5]), 10),
        lambda: inverse_propensity(np.array([11]), 10),
        lambda: inverse_propensity(np.array([0]), 0),
        lambda: inverse_propensity(np.array([1]), 10, B=0.0),
        lambda: LabelProfile.from_counts(COUNTS, 1000, "wiki"),
        lambda: LabelProfile.from_counts(COUNTS, 1000, inverse_propensities=np.ones(5)),
        lambda: LabelProfile.from_counts(COUNTS, 1000, inverse_propensities=np.zeros(6)),
        lambda: equal_volume_bins(np.array([-1])),
        lambda: equal_volume_bins(np.array([1]), n_bins=0),
        lambda: head_torso_tail(np.array([1]), head_above=5, tail_below=10),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
