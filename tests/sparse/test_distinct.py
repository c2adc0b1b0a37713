"""Distinct values by sorting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.sparse.distinct import distinct, union

integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(
    lambda found: np.array(found, np.int64)
)


@given(integers, integers)
def test_values_are_those_of_numpy(one, other):
    assert np.array_equal(distinct(one), np.unique(one))
    assert np.array_equal(union(one, other), np.union1d(one, other))


def test_a_matrix_is_taken_as_one_list_and_stays_as_it_is():
    values = np.array([[3, 1], [1, -1]], np.int32)
    assert distinct(values).tolist() == [-1, 1, 3]
    assert distinct(values).dtype == np.int32
    assert values.tolist() == [[3, 1], [1, -1]]
