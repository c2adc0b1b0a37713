"""Level sizes follow from counts alone: nodes and leaves no larger than asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.tree.shape import Shape, level_sizes


@pytest.mark.parametrize(
    ("n_labels", "branching", "max_leaf", "wanted"),
    [
        (100_000, 16, 100, (4, 63, 1000)),
        (10_000, 16, 100, (7, 100)),
        (3_000, 16, 100, (30,)),
        (100, 16, 100, ()),
        (101, 16, 100, (2,)),
        (1, 16, 100, ()),
        (1000, 10, 1, (10, 100, 1000)),
        (64, 2, 8, (2, 4, 8)),
    ],
)
def test_level_sizes(n_labels, branching, max_leaf, wanted):
    assert level_sizes(n_labels, branching, max_leaf) == wanted


@given(st.integers(1, 10**6), st.integers(2, 200), st.integers(1, 500))
def test_leaves_are_small_enough_and_levels_grow_by_branching_at_most(n_labels, branching, max_leaf):
    sizes = (1, *level_sizes(n_labels, branching, max_leaf))
    assert sizes[-1] <= n_labels <= sizes[-1] * max_leaf
    children = [np.diff(ptr).max() for ptr in Shape.whole(sizes[1:]).child_ptr]
    assert all(count <= branching for count in children[1:])
    assert all(count <= 2 * branching for count in children[:1])


def test_a_part_is_numbered_as_in_the_whole():
    part = Shape.whole((3, 7, 20)).under(1, 1)
    assert part.root_level == 1
    assert part.first.tolist() == [1, 2, 5]
    assert [ptr.tolist() for ptr in part.child_ptr] == [[0, 2], [0, 3, 6]]
    assert np.array_equal(
        Shape.whole((3, 7, 20)).under(0, 0).child_ptr[1], Shape.whole((3, 7, 20)).child_ptr[1]
    )
