"""Labels of two runs in one numbering."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.quality.renumbering import common_numbers, renumbered, renumbered_rows
from xmcspark.sparse.csr import as_csr


def packed(*pairs):
    return [tuple(np.array(column, np.int32) for column in zip(*part, strict=True)) for part in pairs]


def test_labels_of_both_keep_the_first_runs_numbers_and_new_ones_follow():
    numbers, new = common_numbers(packed([(0, 4), (7, -1)], [(3, 0), (1, -1)]), n_own=6)
    assert numbers.tolist() == [4, 6, -1, 0, -1, -1, -1, 7]
    assert new == 2


def test_numbers_that_agree_are_left_alone():
    assert common_numbers(packed([(0, 0), (5, 5)]), n_own=9) == (None, 0)
    assert common_numbers([], n_own=9) == (None, 0)


def test_rows_are_increasing_again():
    Y = sp.csr_matrix(np.array([[1, 2, 3], [0, 0, 4]], np.float32))
    found = renumbered_rows(as_csr(Y), np.array([5, 1, 3], np.int32), "b")
    assert found.indices.tolist() == [1, 3, 5, 3]
    assert found.data.tolist() == [2, 3, 1, 4]


@pytest.mark.parametrize("label", [1, 9])
def test_labels_that_the_run_does_not_know_are_refused(label):
    with pytest.raises(InputError, match=r"run b has .* run corpus and predict again"):
        renumbered(np.array([0, label]), np.array([2, -1, 1], np.int32), "b")
