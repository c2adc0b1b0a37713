"""Numbers by powers of two."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.report.distribution import Distribution, bin_name, moved_share

numbers = st.lists(st.integers(0, 5_000), min_size=1, max_size=60)


def of_numbers(values):
    return Distribution.of((number.bit_length(), 1, number, number) for number in values)


@given(numbers)
def test_a_distribution_counts_each_number_once(values):
    made = of_numbers(values)
    assert (made.size, made.total, made.largest) == (len(values), sum(values), max(values))
    assert dict(enumerate(made.counts)) | Counter(n.bit_length() for n in values) == dict(
        enumerate(made.counts)
    )
    assert Distribution.of_json(made.to_json()) == made
    assert made.mean == pytest.approx(sum(values) / len(values))


@given(numbers, numbers)
def test_the_share_that_moved_is_a_distance(one, other):
    a, b = of_numbers(one), of_numbers(other)
    assert moved_share(a, a) == 0
    assert moved_share(a, b) == pytest.approx(moved_share(b, a))
    assert 0 <= moved_share(a, b) <= 1 + 1e-12


def test_what_has_nothing_in_common_moved_altogether():
    assert moved_share(of_numbers([1, 1]), of_numbers([8, 9, 1_000])) == pytest.approx(1)


@given(st.integers(0, 1 << 40))
def test_a_bin_is_named_after_its_numbers(number):
    name = bin_name(number.bit_length()).replace(",", "")
    low, _, high = name.partition("–")
    assert int(low) <= number <= int(high or low)


def test_nothing_has_no_bins():
    assert Distribution.of([]) == Distribution((), 0, 0)
    assert Distribution.of([]).mean == 0
