"""The digest of a table sees every value and no order."""

import pytest

from xmcspark.store.digest import table_digest

SCHEMA = "id int, text string, labels array<int>, relevance array<float>"
ROWS = [(i, None if i == 3 else f"t{i}", list(range(i)), [0.5] * i) for i in range(9)]


@pytest.fixture(scope="module")
def expected(spark):
    return table_digest(spark.createDataFrame(ROWS, SCHEMA))


def test_the_order_and_the_spread_of_rows_do_not_matter(spark, expected):
    assert table_digest(spark.createDataFrame(ROWS[::-1], SCHEMA).repartition(4)) == expected


@pytest.mark.parametrize(
    "changed",
    [
        ROWS[1:],
        [*ROWS, ROWS[0]],
        [(0, None, [], []), *ROWS[1:]],
        [(0, "", [], []), *ROWS[1:]],
        [*ROWS[:8], (8, "t8", [*range(7), 9], [0.5] * 8)],
        [*ROWS[:8], (8, "t8", list(range(8)), [0.5] * 7 + [0.25])],
    ],
)
def test_any_change_of_a_row_shows(spark, expected, changed):
    assert table_digest(spark.createDataFrame(changed, SCHEMA)) != expected


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        ("a string, b string", (None, "x"), ("x", None)),
        ("a array<int>, b array<int>", ([1], [2]), ([1, 2], [])),
        ("a array<int>, b int", ([None, 1], 2), ([1, None], 2)),
        ("a array<int>, b int", ([], 1), (None, 1)),
    ],
)
def test_values_do_not_blend_into_their_neighbours(spark, schema, one, other):
    assert table_digest(spark.createDataFrame([one], schema)) != table_digest(
        spark.createDataFrame([other], schema)
    )


def test_an_empty_table_has_a_digest(spark):
    assert table_digest(spark.createDataFrame([], SCHEMA)) == "0-0000000000000000"


def test_more_rows_than_a_bigint_of_hashes_can_hold_do_not_overflow(spark):
    assert table_digest(spark.range(5000)).startswith("5000-")
